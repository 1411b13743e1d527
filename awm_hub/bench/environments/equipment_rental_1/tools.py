"""Equipment rental: catalogue and prices, units, accounts, reservations, rentals, workshop, deliveries and invoices.

One FastAPI app over one SQLite database. Every operation is one endpoint; its decorator says what it does. Money is
counted in integer cents, days are calendar days in UTC, and the first and the last day of a period both count.
"""

import os
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from fastapi import FastAPI, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy import ForeignKey, Select, UniqueConstraint, and_, create_engine, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, Session, declarative_base, mapped_column, relationship, sessionmaker

DATABASE_PATH = os.getenv("DATABASE_PATH", "sqlite:///equipment_rental.db")
engine = create_engine(DATABASE_PATH, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(bind=engine, autoflush=True)
Base = declarative_base()

ACTING_USER_ID = 1
MAX_PERIOD_DAYS = 180
MAX_ADVANCE_DAYS = 730
LATE_PERCENT = 150
WAIVER_PERCENT = 10

UnitStatus = Literal["available", "on_rent", "maintenance", "retired"]
AccountStatus = Literal["active", "on_hold", "closed"]
ReservationStatus = Literal["confirmed", "checked_out", "cancelled"]
RentalStatus = Literal["open", "returned", "invoiced"]
DamageStatus = Literal["open", "charged", "waived"]
DeliveryStatus = Literal["scheduled", "completed", "cancelled"]
Slot = Literal["am", "pm"]
Category = Literal["earthmoving", "access", "compaction", "power", "concrete", "garden"]


# Tables ---------------------------------------------------------------------------------------------------------------


class Branch(Base):
    __tablename__ = "branches"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    address: Mapped[str]
    phone: Mapped[str]
    employees: Mapped[list["Employee"]] = relationship(order_by="Employee.id")
    vehicles: Mapped[list["Vehicle"]] = relationship(order_by="Vehicle.id")


class Employee(Base):
    __tablename__ = "employees"
    id: Mapped[int] = mapped_column(primary_key=True)
    full_name: Mapped[str]
    role: Mapped[str]
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    email: Mapped[str] = mapped_column(unique=True)
    is_active: Mapped[bool] = mapped_column(default=True)


class Vehicle(Base):
    __tablename__ = "vehicles"
    id: Mapped[int] = mapped_column(primary_key=True)
    plate: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    payload_kg: Mapped[int]


class EquipmentModel(Base):
    __tablename__ = "equipment_models"
    id: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    maker: Mapped[str]
    category: Mapped[str]
    weight_kg: Mapped[int]
    needs_licence: Mapped[bool] = mapped_column(default=False)
    service_interval_hours: Mapped[int | None]
    replacement_cents: Mapped[int]
    excess_cents: Mapped[int]
    rates: Mapped[list["Rate"]] = relationship(lazy="selectin", order_by="Rate.valid_from")


class Rate(Base):
    __tablename__ = "rates"
    __table_args__ = (UniqueConstraint("model_id", "valid_from"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("equipment_models.id"))
    valid_from: Mapped[date]
    daily_cents: Mapped[int]
    weekly_cents: Mapped[int]
    monthly_cents: Mapped[int]


class Unit(Base):
    __tablename__ = "units"
    id: Mapped[int] = mapped_column(primary_key=True)
    serial_number: Mapped[str] = mapped_column(unique=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("equipment_models.id"))
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    status: Mapped[str] = mapped_column(default="available")
    meter_hours: Mapped[int] = mapped_column(default=0)
    service_due_hours: Mapped[int | None]
    acquired_on: Mapped[date]
    model: Mapped["EquipmentModel"] = relationship(lazy="joined")
    branch: Mapped["Branch"] = relationship(lazy="joined")


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    email: Mapped[str]
    status: Mapped[str] = mapped_column(default="active")
    credit_limit_cents: Mapped[int]
    payment_terms_days: Mapped[int]
    discount_percent: Mapped[int] = mapped_column(default=0)
    opened_on: Mapped[date]
    contacts: Mapped[list["Contact"]] = relationship(order_by="Contact.id")
    sites: Mapped[list["Site"]] = relationship(order_by="Site.id")


class Contact(Base):
    __tablename__ = "contacts"
    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    full_name: Mapped[str]
    phone: Mapped[str]
    has_licence: Mapped[bool] = mapped_column(default=False)


class DeliveryZone(Base):
    __tablename__ = "delivery_zones"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    fee_cents: Mapped[int]


class Site(Base):
    __tablename__ = "sites"
    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    name: Mapped[str]
    address: Mapped[str]
    zone_id: Mapped[int] = mapped_column(ForeignKey("delivery_zones.id"))
    zone: Mapped["DeliveryZone"] = relationship(lazy="joined")


class Discount(Base):
    __tablename__ = "discounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    percent: Mapped[int]
    category: Mapped[str | None]
    min_days: Mapped[int] = mapped_column(default=1)
    valid_from: Mapped[date]
    valid_until: Mapped[date]
    is_active: Mapped[bool] = mapped_column(default=True)


class Reservation(Base):
    __tablename__ = "reservations"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(unique=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    contact_id: Mapped[int] = mapped_column(ForeignKey("contacts.id"))
    branch_id: Mapped[int] = mapped_column(ForeignKey("branches.id"))
    starts_on: Mapped[date]
    ends_on: Mapped[date]
    status: Mapped[str] = mapped_column(default="confirmed")
    damage_waiver: Mapped[bool] = mapped_column(default=False)
    discount_id: Mapped[int | None] = mapped_column(ForeignKey("discounts.id"))
    note: Mapped[str | None]
    created_by: Mapped[int] = mapped_column(ForeignKey("employees.id"))
    created_at: Mapped[datetime]
    account: Mapped["Account"] = relationship(lazy="joined")
    contact: Mapped["Contact"] = relationship(lazy="joined")
    branch: Mapped["Branch"] = relationship()
    discount: Mapped["Discount | None"] = relationship(lazy="joined")
    lines: Mapped[list["ReservationLine"]] = relationship(
        lazy="selectin", order_by="ReservationLine.id", cascade="all, delete-orphan", back_populates="reservation"
    )
    deliveries: Mapped[list["Delivery"]] = relationship(
        lazy="selectin", order_by="Delivery.id", back_populates="reservation"
    )
    rental: Mapped["Rental | None"] = relationship(lazy="selectin", back_populates="reservation")


class ReservationLine(Base):
    __tablename__ = "reservation_lines"
    __table_args__ = (UniqueConstraint("reservation_id", "model_id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    reservation_id: Mapped[int] = mapped_column(ForeignKey("reservations.id"))
    model_id: Mapped[int] = mapped_column(ForeignKey("equipment_models.id"))
    quantity: Mapped[int]
    discount_percent: Mapped[int] = mapped_column(default=0)
    price_cents: Mapped[int]
    reservation: Mapped["Reservation"] = relationship(back_populates="lines")
    model: Mapped["EquipmentModel"] = relationship(lazy="joined")


class Rental(Base):
    __tablename__ = "rentals"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(unique=True)
    reservation_id: Mapped[int] = mapped_column(ForeignKey("reservations.id"), unique=True)
    starts_on: Mapped[date]
    due_on: Mapped[date]
    status: Mapped[str] = mapped_column(default="open")
    opened_by: Mapped[int] = mapped_column(ForeignKey("employees.id"))
    reservation: Mapped["Reservation"] = relationship(lazy="joined", back_populates="rental")
    items: Mapped[list["RentalItem"]] = relationship(lazy="selectin", order_by="RentalItem.id", back_populates="rental")
    invoice: Mapped["Invoice | None"] = relationship(lazy="selectin", back_populates="rental")


class RentalItem(Base):
    __tablename__ = "rental_items"
    id: Mapped[int] = mapped_column(primary_key=True)
    rental_id: Mapped[int] = mapped_column(ForeignKey("rentals.id"))
    unit_id: Mapped[int] = mapped_column(ForeignKey("units.id"))
    daily_cents: Mapped[int]
    weekly_cents: Mapped[int]
    monthly_cents: Mapped[int]
    discount_percent: Mapped[int] = mapped_column(default=0)
    meter_out: Mapped[int]
    meter_in: Mapped[int | None]
    returned_on: Mapped[date | None]
    rental: Mapped["Rental"] = relationship(back_populates="items")
    unit: Mapped["Unit"] = relationship(lazy="joined")
    damage: Mapped["DamageReport | None"] = relationship(lazy="selectin", back_populates="item")


class DamageReport(Base):
    __tablename__ = "damage_reports"
    id: Mapped[int] = mapped_column(primary_key=True)
    rental_item_id: Mapped[int] = mapped_column(ForeignKey("rental_items.id"), unique=True)
    severity: Mapped[str]
    description: Mapped[str]
    estimate_cents: Mapped[int]
    status: Mapped[str] = mapped_column(default="open")
    charged_cents: Mapped[int | None]
    decision_note: Mapped[str | None]
    reported_on: Mapped[date]
    decided_on: Mapped[date | None]
    item: Mapped["RentalItem"] = relationship(lazy="selectin", back_populates="damage")


class MaintenanceOrder(Base):
    __tablename__ = "maintenance_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    unit_id: Mapped[int] = mapped_column(ForeignKey("units.id"))
    kind: Mapped[str]
    status: Mapped[str] = mapped_column(default="open")
    description: Mapped[str]
    technician_id: Mapped[int | None] = mapped_column(ForeignKey("employees.id"))
    damage_report_id: Mapped[int | None] = mapped_column(ForeignKey("damage_reports.id"))
    opened_on: Mapped[date]
    closed_on: Mapped[date | None]
    cost_cents: Mapped[int | None]
    unit: Mapped["Unit"] = relationship(lazy="joined")
    technician: Mapped["Employee | None"] = relationship(lazy="joined")


class Delivery(Base):
    __tablename__ = "deliveries"
    id: Mapped[int] = mapped_column(primary_key=True)
    reservation_id: Mapped[int] = mapped_column(ForeignKey("reservations.id"))
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    direction: Mapped[str]
    scheduled_on: Mapped[date]
    slot: Mapped[str]
    vehicle_id: Mapped[int] = mapped_column(ForeignKey("vehicles.id"))
    status: Mapped[str] = mapped_column(default="scheduled")
    fee_cents: Mapped[int]
    reservation: Mapped["Reservation"] = relationship(lazy="selectin", back_populates="deliveries")
    site: Mapped["Site"] = relationship(lazy="joined")
    vehicle: Mapped["Vehicle"] = relationship(lazy="joined")


class Invoice(Base):
    __tablename__ = "invoices"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str] = mapped_column(unique=True)
    rental_id: Mapped[int] = mapped_column(ForeignKey("rentals.id"), unique=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    issued_on: Mapped[date]
    due_on: Mapped[date]
    status: Mapped[str] = mapped_column(default="open")
    rental: Mapped["Rental"] = relationship(back_populates="invoice")
    account: Mapped["Account"] = relationship(lazy="joined")
    lines: Mapped[list["InvoiceLine"]] = relationship(
        lazy="selectin", order_by="InvoiceLine.position", cascade="all, delete-orphan"
    )
    payments: Mapped[list["Payment"]] = relationship(lazy="selectin", order_by="Payment.id")


class InvoiceLine(Base):
    __tablename__ = "invoice_lines"
    __table_args__ = (UniqueConstraint("invoice_id", "position"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    invoice_id: Mapped[int] = mapped_column(ForeignKey("invoices.id"))
    position: Mapped[int]
    kind: Mapped[str]
    description: Mapped[str]
    amount_cents: Mapped[int]


class Payment(Base):
    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    invoice_id: Mapped[int] = mapped_column(ForeignKey("invoices.id"))
    amount_cents: Mapped[int]
    method: Mapped[str]
    reference: Mapped[str | None]
    paid_on: Mapped[date]
    received_by: Mapped[int] = mapped_column(ForeignKey("employees.id"))


Base.metadata.create_all(bind=engine)


# Requests -------------------------------------------------------------------------------------------------------------


class LineIn(BaseModel):
    """How many of one model."""

    model_id: int = Field(ge=1, description="Id of the model, as search_models gives it.", examples=[9])
    quantity: int = Field(1, ge=1, le=20, description="How many units of it.", examples=[2])


LINES_EXAMPLE = ({"model_id": 9, "quantity": 2}, {"model_id": 10, "quantity": 1})


class QuoteIn(BaseModel):
    """What a price is asked for."""

    account_id: int = Field(ge=1, description="The customer's account; its own discount counts.", examples=[3])
    branch_id: int = Field(ge=1, description="Branch that hands the equipment out.", examples=[1])
    starts_on: date = Field(description="First day, which counts.", examples=["2026-05-25"])
    ends_on: date = Field(description="Last day, which counts.", examples=["2026-05-29"])
    lines: list[LineIn] = Field(min_length=1, max_length=20, description="Each model once.", examples=[LINES_EXAMPLE])
    discount_code: str | None = Field(None, description="A code from list_discounts.", examples=["SPRING10"])
    damage_waiver: bool = Field(False, description="With the damage waiver, 10 % of the rental price.", examples=[True])


class ReservationIn(QuoteIn):
    """A new reservation."""

    contact_id: int = Field(ge=1, description="The account's contact who will collect or receive it.", examples=[5])
    note: str | None = Field(None, max_length=500, description="A remark for the branch.", examples=["Gate code 4471"])


class ReservationChange(BaseModel):
    """What changes in a reservation; what is left out stays."""

    starts_on: date | None = Field(None, description="New first day.", examples=["2026-05-26"])
    ends_on: date | None = Field(None, description="New last day.", examples=["2026-05-30"])
    contact_id: int | None = Field(None, ge=1, description="Another contact of the same account.", examples=[6])
    lines: list[LineIn] | None = Field(
        None, min_length=1, max_length=20, description="Replaces all former lines.", examples=[LINES_EXAMPLE]
    )
    note: str | None = Field(None, max_length=500, description="New remark for the branch.", examples=["Call ahead"])


class CheckOutIn(BaseModel):
    """The units that go out."""

    unit_ids: list[int] = Field(min_length=1, description="As many of each model as reserved.", examples=[[3, 26]])


class ExtensionIn(BaseModel):
    """How long a rental goes on."""

    due_on: date = Field(description="New last day, later than the present one.", examples=["2026-05-29"])


class DamageIn(BaseModel):
    """Damage seen on a unit that comes back."""

    severity: Literal["minor", "major"] = Field(description="`major` needs the workshop.", examples=["minor"])
    description: str = Field(min_length=3, max_length=300, description="What is broken.", examples=["Cracked lamp"])
    estimate_cents: int = Field(ge=0, le=10_000_000, description="Estimated repair cost in cents.", examples=[4500])


class ReturnedUnit(BaseModel):
    """One unit that comes back."""

    unit_id: int = Field(ge=1, description="Id of the unit.", examples=[3])
    meter_hours: int = Field(ge=0, le=200_000, description="Hour meter now; 0 for units without meter.", examples=[412])
    damage: DamageIn | None = Field(None, description="The damage, if there is any.", examples=[None])


class ReturnIn(BaseModel):
    """What comes back today."""

    units: list[ReturnedUnit] = Field(
        min_length=1, description="The units.", examples=[[{"unit_id": 3, "meter_hours": 9}]]
    )


class DamageDecision(BaseModel):
    """Who bears a damage."""

    decision: Literal["charge", "waive"] = Field(description="Whether the customer pays.", examples=["charge"])
    amount_cents: int | None = Field(None, ge=1, description="By default the most chargeable.", examples=[4500])
    note: str | None = Field(None, max_length=300, description="Reason; needed to waive.", examples=["Goodwill"])


class UnitChange(BaseModel):
    """What changes in a unit; what is left out stays."""

    branch_id: int | None = Field(None, ge=1, description="Branch the unit moves to.", examples=[2])
    meter_hours: int | None = Field(None, ge=0, le=200_000, description="Hour meter as read today.", examples=[655])
    retire: bool = Field(False, description="Take the unit out of the fleet for good.", examples=[False])


class ContactIn(BaseModel):
    """A person of an account."""

    full_name: str = Field(min_length=2, max_length=120, description="First and last name.", examples=["Ines Varga"])
    phone: str = Field(min_length=5, max_length=30, description="Telephone number.", examples=["+44 1632 960511"])
    has_licence: bool = Field(False, description="Has shown a machine operator's licence.", examples=[True])


class SiteIn(BaseModel):
    """A site of an account."""

    name: str = Field(min_length=2, max_length=120, description="What the site is called.", examples=["Mill Court"])
    address: str = Field(min_length=5, max_length=200, description="Street and town.", examples=["4 Mill Ct, Arnby"])
    zone_code: str = Field(description="Delivery zone: `city`, `ring`, `county` or `far`.", examples=["ring"])


class AccountIn(BaseModel):
    """A new account."""

    name: str = Field(min_length=2, max_length=120, description="Name of firm or person.", examples=["Varga Tiling"])
    kind: Literal["business", "private"] = Field(description="Firm or private person.", examples=["business"])
    email: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", description="Address for invoices.", examples=["ap@varga.example"])
    credit_limit_cents: int = Field(0, ge=0, le=50_000_000, description="Most it may owe, in cents.", examples=[200000])
    payment_terms_days: int = Field(14, ge=0, le=90, description="Days to pay an invoice.", examples=[14])
    contacts: list[ContactIn] = Field(
        min_length=1,
        max_length=20,
        description="At least one.",
        examples=[[{"full_name": "Ines Varga", "phone": "960511"}]],
    )
    sites: list[SiteIn] = Field([], max_length=20, description="Sites to deliver to, if any.", examples=[[]])


class AccountChange(BaseModel):
    """What changes in an account; what is left out stays."""

    status: AccountStatus | None = Field(None, description="`on_hold` stops new business.", examples=["on_hold"])
    credit_limit_cents: int | None = Field(None, ge=0, le=50_000_000, description="New limit.", examples=[300000])
    payment_terms_days: int | None = Field(None, ge=0, le=90, description="For invoices to come.", examples=[30])
    discount_percent: int | None = Field(None, ge=0, le=30, description="The account's own discount.", examples=[5])


class MaintenanceIn(BaseModel):
    """Work for the workshop."""

    unit_id: int = Field(ge=1, description="The unit.", examples=[12])
    kind: Literal["service", "repair", "inspection"] = Field(description="Kind of work.", examples=["service"])
    description: str = Field(min_length=3, max_length=300, description="What is to do.", examples=["250 h service"])
    technician_id: int | None = Field(None, ge=1, description="Technician of the unit's branch.", examples=[4])


class MaintenanceResult(BaseModel):
    """How workshop work ended."""

    cost_cents: int = Field(ge=0, le=50_000_000, description="Parts and labour, in cents.", examples=[18500])


class DeliveryIn(BaseModel):
    """A trip to plan."""

    reservation_id: int = Field(ge=1, description="The reservation whose equipment is carried.", examples=[14])
    site_id: int = Field(ge=1, description="A site of the same account.", examples=[4])
    direction: Literal["deliver", "collect"] = Field(description="To the site, or back from it.", examples=["deliver"])
    scheduled_on: date = Field(description="Day of the trip.", examples=["2026-05-25"])
    slot: Slot = Field(description="Morning or afternoon.", examples=["am"])


class DeliveryChange(BaseModel):
    """What changes in a trip; what is left out stays."""

    scheduled_on: date | None = Field(None, description="New day.", examples=["2026-05-26"])
    slot: Slot | None = Field(None, description="New half of the day.", examples=["pm"])
    status: Literal["completed", "cancelled"] | None = Field(None, description="How it ended.", examples=["completed"])


class PaymentIn(BaseModel):
    """Money received."""

    amount_cents: int = Field(ge=1, le=100_000_000, description="At most what is open, in cents.", examples=[25000])
    method: Literal["cash", "card", "transfer"] = Field(description="How it was paid.", examples=["transfer"])
    reference: str | None = Field(None, max_length=60, description="The payer's reference.", examples=["TR-20931"])


# Answers --------------------------------------------------------------------------------------------------------------


class PersonOut(BaseModel):
    id: int
    full_name: str
    role: str


class VehicleOut(BaseModel):
    id: int
    plate: str
    name: str
    payload_kg: int


class BranchOut(BaseModel):
    id: int
    code: str
    name: str
    address: str
    phone: str
    employees: list[PersonOut]
    vehicles: list[VehicleOut]


class RateOut(BaseModel):
    valid_from: date
    daily_cents: int
    weekly_cents: int
    monthly_cents: int


class ModelOut(BaseModel):
    id: int
    sku: str
    name: str
    maker: str
    category: Category
    weight_kg: int
    needs_licence: bool
    rates: RateOut | None


class ModelDetail(ModelOut):
    service_interval_hours: int | None
    replacement_cents: int
    excess_cents: int
    all_rates: list[RateOut]


class FreeUnits(BaseModel):
    branch_id: int
    free_units: int


class UnitOut(BaseModel):
    id: int
    serial_number: str
    model_id: int
    model: str
    branch_id: int
    branch: str
    status: UnitStatus
    meter_hours: int
    service_due_hours: int | None
    is_service_due: bool


class MaintenanceOut(BaseModel):
    id: int
    unit_id: int
    serial_number: str
    branch_id: int
    kind: str
    status: Literal["open", "done"]
    description: str
    technician: str | None
    damage_report_id: int | None
    opened_on: date
    closed_on: date | None
    cost_cents: int | None


class ContactOut(BaseModel):
    id: int
    full_name: str
    phone: str
    has_licence: bool


class SiteOut(BaseModel):
    id: int
    name: str
    address: str
    zone: str
    fee_cents: int


class AccountOut(BaseModel):
    id: int
    number: str
    name: str
    kind: str
    email: str
    status: AccountStatus
    credit_limit_cents: int
    payment_terms_days: int
    discount_percent: int
    opened_on: date


class AccountDetail(AccountOut):
    contacts: list[ContactOut]
    sites: list[SiteOut]
    open_cents: int
    overdue_cents: int


class DiscountOut(BaseModel):
    code: str
    name: str
    percent: int
    category: Category | None
    min_days: int
    valid_from: date
    valid_until: date
    is_active: bool


class LineOut(BaseModel):
    model_id: int
    model: str
    quantity: int
    discount_percent: int
    price_cents: int


class QuoteLine(LineOut):
    free_units: int


class QuoteOut(BaseModel):
    days: int
    lines: list[QuoteLine]
    rental_cents: int
    waiver_cents: int
    total_cents: int
    is_available: bool


class DeliveryOut(BaseModel):
    id: int
    reservation_id: int
    branch_id: int
    account: str
    site_id: int
    site: str
    direction: str
    scheduled_on: date
    slot: Slot
    vehicle: str
    status: DeliveryStatus
    fee_cents: int


class ReservationOut(BaseModel):
    id: int
    number: str
    account_id: int
    account: str
    contact_id: int
    contact: str
    branch_id: int
    starts_on: date
    ends_on: date
    status: ReservationStatus
    damage_waiver: bool
    discount_code: str | None
    note: str | None
    lines: list[LineOut]
    total_cents: int
    deliveries: list[DeliveryOut]
    rental_id: int | None


class RentalItemOut(BaseModel):
    unit_id: int
    serial_number: str
    model_id: int
    model: str
    daily_cents: int
    weekly_cents: int
    monthly_cents: int
    discount_percent: int
    meter_out: int
    meter_in: int | None
    returned_on: date | None


class DamageOut(BaseModel):
    id: int
    rental_id: int
    account_id: int
    account: str
    unit_id: int
    serial_number: str
    severity: str
    description: str
    estimate_cents: int
    damage_waiver: bool
    chargeable_cents: int
    status: DamageStatus
    charged_cents: int | None
    decision_note: str | None
    reported_on: date
    decided_on: date | None


class RentalOut(BaseModel):
    id: int
    number: str
    reservation_id: int
    account_id: int
    account: str
    branch_id: int
    starts_on: date
    due_on: date
    status: RentalStatus
    damage_waiver: bool
    items: list[RentalItemOut]
    damage_reports: list[DamageOut]
    invoice_id: int | None


class InvoiceOut(BaseModel):
    id: int
    number: str
    rental_id: int
    account_id: int
    account: str
    issued_on: date
    due_on: date
    status: Literal["open", "paid"]
    total_cents: int
    open_cents: int
    days_overdue: int


class InvoiceLineOut(BaseModel):
    kind: str
    description: str
    amount_cents: int


class PaymentOut(BaseModel):
    id: int
    amount_cents: int
    method: str
    reference: str | None
    paid_on: date


class InvoiceDetail(InvoiceOut):
    lines: list[InvoiceLineOut]
    payments: list[PaymentOut]


# Rules ----------------------------------------------------------------------------------------------------------------

Row = TypeVar("Row")


class PricedLine(NamedTuple):
    """A model, how many of it, and what they cost for a period."""

    model: EquipmentModel
    quantity: int
    discount_percent: int
    price_cents: int


def get_row(session: Session, table: type[Row], row_id: int, what: str) -> Row:
    """The row with an id, or a 404."""
    row = session.get(table, row_id)
    if row is None:
        raise HTTPException(404, f"There is no {what} with id {row_id}.")
    return row


def filtered(statement: Select[Any], *wanted: tuple[Any, Any]) -> Select[Any]:
    """The rows of a query whose columns have the values that are given; None stands for any value."""
    return statement.where(*(column == value for column, value in wanted if value is not None))


def next_number(session: Session, table: Any, prefix: str) -> str:
    """The number of the next row that is added to a table."""
    last = session.scalar(select(func.max(table.id))) or 0
    return f"{prefix}-{date.today().year}-{last + 1:04}"


def days_of(starts_on: date, ends_on: date) -> int:
    """How many days a period has; both ends count."""
    return (ends_on - starts_on).days + 1


def check_period(starts_on: date, ends_on: date, *, is_coming: bool = True) -> None:
    """Refuse periods that cannot be rented, or not any more."""
    if is_coming and starts_on < date.today():
        raise HTTPException(422, f"The period starts on {starts_on}, which is past.")
    if ends_on < starts_on:
        raise HTTPException(422, f"The period ends on {ends_on}, before it starts on {starts_on}.")
    if days_of(starts_on, ends_on) > MAX_PERIOD_DAYS:
        raise HTTPException(422, f"A period has at most {MAX_PERIOD_DAYS} days.")
    if (starts_on - date.today()).days > MAX_ADVANCE_DAYS:
        raise HTTPException(422, f"Periods start at most {MAX_ADVANCE_DAYS} days from today.")


def check_state(row: Reservation | Rental, wanted: str) -> None:
    """Refuse what a reservation or a rental is not in the state for."""
    if row.status != wanted:
        raise HTTPException(409, f"{row.number} is {row.status.replace('_', ' ')}, not {wanted}.")


def check_active(account: Account) -> None:
    """Refuse new business with accounts that are on hold or closed."""
    if account.status != "active":
        raise HTTPException(409, f"The account {account.name} is {account.status.replace('_', ' ')}.")


def percent_of(cents: int, percent: int) -> int:
    """A share of an amount, rounded to the nearest cent."""
    return (cents * percent + 50) // 100


def period_cents(rate: Rate | RentalItem, days: int) -> int:
    """What one unit costs for some days: months of 28 days, weeks and days, none dearer than the next longer one."""
    months, rest = divmod(days, 28)
    weeks, left = divmod(rest, 7)
    part = weeks * rate.weekly_cents + min(left * rate.daily_cents, rate.weekly_cents)
    return months * rate.monthly_cents + min(part, rate.monthly_cents)


def find_rate(model: EquipmentModel, day: date) -> Rate | None:
    """The prices of a model on a day."""
    return next((rate for rate in reversed(model.rates) if rate.valid_from <= day), None)


def get_rate(model: EquipmentModel, day: date) -> Rate:
    """The prices of a model on a day, or a 409."""
    rate = find_rate(model, day)
    if rate is None:
        raise HTTPException(409, f"{model.name} has no prices for {day}.")
    return rate


def get_discount(session: Session, code: str, starts_on: date, ends_on: date) -> Discount:
    """The discount with a code if it is good for a period, a 404 or a 409 otherwise."""
    discount = session.scalar(select(Discount).where(func.upper(Discount.code) == code.strip().upper()))
    if discount is None:
        raise HTTPException(404, f"There is no discount code {code!r}.")
    if not discount.is_active:
        raise HTTPException(409, f"The discount code {discount.code} is no longer in use.")
    if not discount.valid_from <= starts_on <= discount.valid_until:
        raise HTTPException(409, f"{discount.code} is good from {discount.valid_from} to {discount.valid_until}.")
    if days_of(starts_on, ends_on) < discount.min_days:
        raise HTTPException(409, f"The discount code {discount.code} needs {discount.min_days} days or more.")
    return discount


def discount_on(model: EquipmentModel, account: Account, discount: Discount | None) -> int:
    """The better of the account's own discount and the code's: they do not add up."""
    fits = discount is not None and discount.category in (None, model.category)
    return max(account.discount_percent, discount.percent) if fits else account.discount_percent


def price_lines(
    session: Session, account: Account, code: str | None, starts_on: date, ends_on: date, lines: Sequence[LineIn]
) -> tuple[Discount | None, list[PricedLine]]:
    """The discount that a code stands for, and what every line of a quote or a reservation costs with it."""
    check_period(starts_on, ends_on)
    if len({line.model_id for line in lines}) < len(lines):
        raise HTTPException(422, "A model stands in two lines: name each model once, with its quantity.")
    discount = get_discount(session, code, starts_on, ends_on) if code else None
    priced = []
    for line in lines:
        model = get_row(session, EquipmentModel, line.model_id, "model")
        full = line.quantity * period_cents(get_rate(model, starts_on), days_of(starts_on, ends_on))
        percent = discount_on(model, account, discount)
        priced.append(PricedLine(model, line.quantity, percent, full - percent_of(full, percent)))
    return discount, priced


def waiver_cents(rental_cents: int, has_waiver: bool) -> int:
    """The price of the damage waiver."""
    return percent_of(rental_cents, WAIVER_PERCENT) if has_waiver else 0


def count_free(
    session: Session, model_id: int, branch_id: int, starts_on: date, ends_on: date, *, besides: int | None = None
) -> int:
    """How many units of a model a branch has free on every day of a period, leaving one reservation out of account."""
    in_service = Unit.status.in_(("available", "on_rent"))
    of_model = and_(Unit.model_id == model_id, Unit.branch_id == branch_id)
    capacity = session.scalar(select(func.count()).select_from(Unit).where(of_model, in_service)) or 0
    reserved = session.execute(
        select(Reservation.starts_on, Reservation.ends_on, ReservationLine.quantity)
        .select_from(ReservationLine)
        .join(ReservationLine.reservation)
        .where(
            ReservationLine.model_id == model_id,
            Reservation.branch_id == branch_id,
            Reservation.status == "confirmed",
            Reservation.id != (besides or 0),
        )
    )
    rented = session.execute(
        select(Rental.starts_on, Rental.due_on)
        .select_from(RentalItem)
        .join(RentalItem.rental)
        .join(RentalItem.unit)
        .where(of_model, RentalItem.returned_on.is_(None), Rental.reservation_id != (besides or 0))
    )
    taken = [(first, last, quantity) for first, last, quantity in reserved]
    taken += [(first, max(last, date.today()), 1) for first, last in rented]
    days = (starts_on + timedelta(days=n) for n in range(days_of(starts_on, ends_on)))
    busiest = max(sum(quantity for first, last, quantity in taken if first <= day <= last) for day in days)
    return max(capacity - busiest, 0)


def check_free(
    session: Session,
    branch: Branch,
    starts_on: date,
    ends_on: date,
    wanted: Iterable[tuple[EquipmentModel, int]],
    *,
    besides: int | None = None,
) -> None:
    """Refuse what a branch cannot hand out in a period."""
    for model, quantity in wanted:
        free = count_free(session, model.id, branch.id, starts_on, ends_on, besides=besides)
        if free < quantity:
            what = f"{free} of {quantity} {model.name} free from {starts_on} to {ends_on}"
            raise HTTPException(409, f"{branch.name} has {what}.")


def total_of(invoice: Invoice) -> int:
    """The amount of an invoice."""
    return sum(line.amount_cents for line in invoice.lines)


def open_of(invoice: Invoice) -> int:
    """What is still to be paid of an invoice."""
    return total_of(invoice) - sum(payment.amount_cents for payment in invoice.payments)


def open_invoices(session: Session, account: Account) -> list[Invoice]:
    """The invoices that an account has not settled, the one due first coming first."""
    of_account = (Invoice.account_id == account.id, Invoice.status == "open")
    return list(session.scalars(select(Invoice).where(*of_account).order_by(Invoice.due_on, Invoice.id)))


def check_credit(session: Session, account: Account, priced: Sequence[PricedLine], has_waiver: bool) -> None:
    """Refuse business that takes an account over its credit limit."""
    owed = sum(open_of(invoice) for invoice in open_invoices(session, account))
    rental_cents = sum(line.price_cents for line in priced)
    new_cents = rental_cents + waiver_cents(rental_cents, has_waiver)
    if owed + new_cents > account.credit_limit_cents:
        raise HTTPException(409, f"{owed} cents owed and {new_cents} cents for this are over the credit limit.")


def get_contact(session: Session, account: Account, contact_id: int) -> Contact:
    """A contact of an account."""
    contact = get_row(session, Contact, contact_id, "contact")
    if contact.account_id != account.id:
        raise HTTPException(422, f"{contact.full_name} is no contact of {account.name}.")
    return contact


def is_service_due(unit: Unit) -> bool:
    """Whether a unit must not go out before its next service."""
    return unit.service_due_hours is not None and unit.meter_hours >= unit.service_due_hours


def chargeable_cents(damage: DamageReport) -> int:
    """The most that may be charged for a damage: the estimate, with the waiver at most the model's excess."""
    if damage.item.rental.reservation.damage_waiver:
        return min(damage.estimate_cents, damage.item.unit.model.excess_cents)
    return damage.estimate_cents


def last_day(reservation: Reservation) -> date:
    """The day on which a reservation's equipment is due back."""
    return reservation.rental.due_on if reservation.rental else reservation.ends_on


def check_trip_day(reservation: Reservation, direction: str, day: date) -> None:
    """Refuse trips on a day that does not fit the reservation."""
    if day < date.today():
        raise HTTPException(422, f"{day} is past.")
    if direction == "deliver":
        allowed = (reservation.starts_on - timedelta(days=1), reservation.starts_on)
    else:
        allowed = (last_day(reservation), last_day(reservation) + timedelta(days=1))
    if day not in allowed:
        what = "brought" if direction == "deliver" else "fetched"
        raise HTTPException(422, f"Equipment of {reservation.number} is {what} on {allowed[0]} or {allowed[1]}.")


def choose_vehicle(
    session: Session, reservation: Reservation, day: date, slot: str, *, besides: int | None = None
) -> Vehicle:
    """The smallest free vehicle of the branch that carries the load, or a 409."""
    kilos = sum(line.quantity * line.model.weight_kg for line in reservation.lines)
    able = [v for v in reservation.branch.vehicles if v.payload_kg >= kilos]
    if not able:
        raise HTTPException(409, f"{reservation.branch.name} has no vehicle that carries {kilos} kg.")
    at_that_time = (Delivery.scheduled_on == day, Delivery.slot == slot, Delivery.status == "scheduled")
    busy = set(session.scalars(select(Delivery.vehicle_id).where(*at_that_time, Delivery.id != (besides or 0))))
    free = [v for v in able if v.id not in busy]
    if not free:
        raise HTTPException(409, f"No vehicle for {kilos} kg is free on {day} ({slot}).")
    return min(free, key=lambda v: (v.payload_kg, v.id))


def invoice_lines(rental: Rental) -> list[tuple[str, str, int]]:
    """Kind, description and amount of everything that a returned rental costs."""
    lines: list[tuple[str, str, int]] = []
    rental_cents = 0
    for item in rental.items:
        returned_on, serial = item.returned_on or date.today(), item.unit.serial_number
        days = days_of(rental.starts_on, min(returned_on, rental.due_on))
        full = period_cents(item, days)
        lines.append(("rental", f"{item.unit.model.name} {serial}, {days} days", full))
        rental_cents += full
        if item.discount_percent:
            off = percent_of(full, item.discount_percent)
            lines.append(("discount", f"{item.discount_percent} % on {serial}", -off))
            rental_cents -= off
        if returned_on > rental.due_on:
            late = (returned_on - rental.due_on).days
            lines.append(("late", f"{serial}, {late} days late", percent_of(late * item.daily_cents, LATE_PERCENT)))
    if rental.reservation.damage_waiver:
        lines.append(("waiver", "Damage waiver", waiver_cents(rental_cents, True)))
    for trip in rental.reservation.deliveries:
        if trip.status == "completed":
            what = "Delivery" if trip.direction == "deliver" else "Collection"
            lines.append(("delivery", f"{what} {trip.scheduled_on}", trip.fee_cents))
    for item in rental.items:
        if item.damage and item.damage.status == "charged":
            amount = item.damage.charged_cents or 0
            lines.append(("damage", f"{item.unit.serial_number}: {item.damage.description}", amount))
    return lines


# Rows as answers ------------------------------------------------------------------------------------------------------


def columns_of(row: Any) -> dict[str, Any]:
    """The columns of a row by name."""
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def model_fields(model: EquipmentModel) -> dict[str, Any]:
    """What every answer says about a model."""
    rate = find_rate(model, date.today())
    return {**columns_of(model), "rates": RateOut(**columns_of(rate)) if rate else None}


def unit_fields(unit: Unit) -> dict[str, Any]:
    """What every answer says about a unit."""
    names = {"model": unit.model.name, "branch": unit.branch.name}
    return {**columns_of(unit), **names, "is_service_due": is_service_due(unit)}


def maintenance_out(order: MaintenanceOrder) -> MaintenanceOut:
    """A workshop order as an answer."""
    technician = order.technician.full_name if order.technician else None
    unit = {"serial_number": order.unit.serial_number, "branch_id": order.unit.branch_id}
    return MaintenanceOut(**columns_of(order), **unit, technician=technician)


def account_detail(session: Session, account: Account) -> AccountDetail:
    """An account with its people, its sites and what it owes, as an answer."""
    invoices = open_invoices(session, account)
    sites = [SiteOut(**columns_of(site), zone=site.zone.code, fee_cents=site.zone.fee_cents) for site in account.sites]
    return AccountDetail(
        **columns_of(account),
        contacts=[ContactOut(**columns_of(contact)) for contact in account.contacts],
        sites=sites,
        open_cents=sum(open_of(invoice) for invoice in invoices),
        overdue_cents=sum(open_of(invoice) for invoice in invoices if invoice.due_on < date.today()),
    )


def delivery_out(delivery: Delivery) -> DeliveryOut:
    """A trip as an answer."""
    return DeliveryOut(
        **columns_of(delivery),
        branch_id=delivery.reservation.branch_id,
        account=delivery.reservation.account.name,
        site=delivery.site.name,
        vehicle=delivery.vehicle.plate,
    )


def line_fields(line: PricedLine | ReservationLine) -> dict[str, Any]:
    """What every answer says about one model and its price."""
    names = {"model_id": line.model.id, "model": line.model.name}
    return {**names, **{name: getattr(line, name) for name in ("quantity", "discount_percent", "price_cents")}}


def reservation_out(reservation: Reservation) -> ReservationOut:
    """A reservation with its lines and trips as an answer."""
    lines = [LineOut(**line_fields(line)) for line in reservation.lines]
    rental_cents = sum(line.price_cents for line in lines)
    return ReservationOut(
        **columns_of(reservation),
        account=reservation.account.name,
        contact=reservation.contact.full_name,
        discount_code=reservation.discount.code if reservation.discount else None,
        lines=lines,
        total_cents=rental_cents + waiver_cents(rental_cents, reservation.damage_waiver),
        deliveries=[delivery_out(delivery) for delivery in reservation.deliveries],
        rental_id=reservation.rental.id if reservation.rental else None,
    )


def damage_out(damage: DamageReport) -> DamageOut:
    """A damage report as an answer."""
    reservation = damage.item.rental.reservation
    return DamageOut(
        **columns_of(damage),
        rental_id=damage.item.rental_id,
        account_id=reservation.account_id,
        account=reservation.account.name,
        unit_id=damage.item.unit_id,
        serial_number=damage.item.unit.serial_number,
        damage_waiver=reservation.damage_waiver,
        chargeable_cents=chargeable_cents(damage),
    )


def rental_out(rental: Rental) -> RentalOut:
    """A rental with its units and damage reports as an answer."""
    reservation = rental.reservation
    units = [{**unit_fields(item.unit), **columns_of(item)} for item in rental.items]
    return RentalOut(
        **columns_of(rental),
        account_id=reservation.account_id,
        account=reservation.account.name,
        branch_id=reservation.branch_id,
        damage_waiver=reservation.damage_waiver,
        items=[RentalItemOut(**unit) for unit in units],
        damage_reports=[damage_out(item.damage) for item in rental.items if item.damage],
        invoice_id=rental.invoice.id if rental.invoice else None,
    )


def invoice_fields(invoice: Invoice) -> dict[str, Any]:
    """What every answer says about an invoice."""
    late = (date.today() - invoice.due_on).days if invoice.status == "open" else 0
    return {
        **columns_of(invoice),
        "account": invoice.account.name,
        "total_cents": total_of(invoice),
        "open_cents": open_of(invoice),
        "days_overdue": max(late, 0),
    }


def invoice_detail(invoice: Invoice) -> InvoiceDetail:
    """An invoice with its lines and payments as an answer."""
    return InvoiceDetail(
        **invoice_fields(invoice),
        lines=[InvoiceLineOut(**columns_of(line)) for line in invoice.lines],
        payments=[PaymentOut(**columns_of(payment)) for payment in invoice.payments],
    )


# The app --------------------------------------------------------------------------------------------------------------

app = FastAPI(
    title="Equipment Rental",
    description="Branches, catalogue and prices, units, accounts, reservations, rentals, workshop and invoices.",
    version="1.0.0",
)


@app.exception_handler(IntegrityError)
async def refuse_conflict(request: Request, error: IntegrityError) -> JSONResponse:
    return JSONResponse({"detail": f"The database refuses this: {error.orig}."}, status_code=409)


@app.exception_handler(OverflowError)
async def refuse_overflow(request: Request, error: OverflowError) -> JSONResponse:
    return JSONResponse({"detail": "A number or a day is out of range."}, status_code=422)


# Catalogue and prices ------------------------------------------------------------------------------------------------


@app.get(
    "/branches",
    operation_id="list_branches",
    summary="List branches",
    description="All branches with their active employees and their vehicles.",
    response_model=list[BranchOut],
)
async def list_branches():
    session = SessionLocal()
    try:
        return [
            BranchOut(
                **columns_of(branch),
                employees=[PersonOut(**columns_of(person)) for person in branch.employees if person.is_active],
                vehicles=[VehicleOut(**columns_of(vehicle)) for vehicle in branch.vehicles],
            )
            for branch in session.scalars(select(Branch).order_by(Branch.id))
        ]
    finally:
        session.close()


@app.get(
    "/models",
    operation_id="search_models",
    summary="Search the catalogue",
    description="Machines and tools on offer with today's prices, in the order of their ids. Without filters: all.",
    response_model=list[ModelOut],
)
async def search_models(
    query: str | None = Query(None, description="Part of name, maker or SKU.", examples=["excavator"]),
    category: Category | None = Query(None, description="Only this category.", examples=["compaction"]),
    needs_licence: bool | None = Query(None, description="With or without operator's licence.", examples=[False]),
):
    session = SessionLocal()
    try:
        statement = select(EquipmentModel).order_by(EquipmentModel.id)
        if query is not None:
            columns = (EquipmentModel.name, EquipmentModel.maker, EquipmentModel.sku)
            statement = statement.where(or_(*(c.icontains(query.strip(), autoescape=True) for c in columns)))
        wanted = ((EquipmentModel.category, category), (EquipmentModel.needs_licence, needs_licence))
        return [ModelOut(**model_fields(model)) for model in session.scalars(filtered(statement, *wanted))]
    finally:
        session.close()


@app.get(
    "/models/{model_id}",
    operation_id="get_model",
    summary="Show a model",
    description="A model with all its prices, past and future. With the waiver, damage costs at most `excess_cents`.",
    response_model=ModelDetail,
)
async def get_model(model_id: int = Path(ge=1, description="Id of the model.", examples=[9])):
    session = SessionLocal()
    try:
        model = get_row(session, EquipmentModel, model_id, "model")
        return ModelDetail(**model_fields(model), all_rates=[RateOut(**columns_of(rate)) for rate in model.rates])
    finally:
        session.close()


@app.get(
    "/availability",
    operation_id="check_availability",
    summary="Check availability",
    description="How many units of a model each branch has free all through a period, without any in the workshop.",
    response_model=list[FreeUnits],
)
async def check_availability(
    model_id: int = Query(ge=1, description="Id of the model.", examples=[1]),
    starts_on: date = Query(description="First day.", examples=["2026-05-25"]),
    ends_on: date = Query(description="Last day.", examples=["2026-05-29"]),
):
    session = SessionLocal()
    try:
        get_row(session, EquipmentModel, model_id, "model")
        check_period(starts_on, ends_on)
        return [
            FreeUnits(branch_id=branch.id, free_units=count_free(session, model_id, branch.id, starts_on, ends_on))
            for branch in session.scalars(select(Branch).order_by(Branch.id))
        ]
    finally:
        session.close()


@app.get(
    "/discounts",
    operation_id="list_discounts",
    summary="List discount codes",
    description="Discount codes, good for periods that start within their days. Of code and account's own discount the "
    "higher counts for each model.",
    response_model=list[DiscountOut],
)
async def list_discounts(
    good_on: date | None = Query(None, description="Only codes in use and good on this day.", examples=["2026-05-25"]),
    category: Category | None = Query(None, description="Only codes good for this category.", examples=["power"]),
):
    session = SessionLocal()
    try:
        statement = select(Discount).order_by(Discount.id)
        if good_on is not None:
            statement = statement.where(
                Discount.is_active, Discount.valid_from <= good_on, Discount.valid_until >= good_on
            )
        if category is not None:
            statement = statement.where(or_(Discount.category.is_(None), Discount.category == category))
        return [DiscountOut(**columns_of(found)) for found in session.scalars(statement)]
    finally:
        session.close()


# Units and workshop --------------------------------------------------------------------------------------------------


@app.get(
    "/units",
    operation_id="list_units",
    summary="List units",
    description="Units in the order of their ids, retired ones only if asked for by status.",
    response_model=list[UnitOut],
)
async def list_units(
    model_id: int | None = Query(None, ge=1, description="Only units of this model.", examples=[5]),
    branch_id: int | None = Query(None, ge=1, description="Only units of this branch.", examples=[2]),
    status: UnitStatus | None = Query(None, description="Only units in this state.", examples=["available"]),
    serial_number: str | None = Query(None, description="Only the unit with this number.", examples=["PC90-2207"]),
    service_due: bool | None = Query(None, description="Only units due, or not due, for service.", examples=[False]),
):
    session = SessionLocal()
    try:
        statement = select(Unit).order_by(Unit.id)
        statement = statement.where(Unit.status == status if status is not None else Unit.status != "retired")
        statement = filtered(statement, (Unit.model_id, model_id), (Unit.branch_id, branch_id))
        if serial_number is not None:
            statement = statement.where(func.upper(Unit.serial_number) == serial_number.strip().upper())
        found = [UnitOut(**unit_fields(unit)) for unit in session.scalars(statement)]
        return [unit for unit in found if service_due is None or unit.is_service_due == service_due]
    finally:
        session.close()


@app.patch(
    "/units/{unit_id}",
    operation_id="update_unit",
    summary="Change a unit",
    description="Move a unit to another branch, correct its hour meter or retire it. Units on rent stay as they are; "
    "a move is refused while the unit is promised at its present branch.",
    response_model=UnitOut,
)
async def update_unit(body: UnitChange, unit_id: int = Path(ge=1, description="Id of the unit.", examples=[7])):
    session = SessionLocal()
    try:
        unit = get_row(session, Unit, unit_id, "unit")
        if body.branch_id is None and body.meter_hours is None and not body.retire:
            raise HTTPException(400, "Nothing is to be changed.")
        if unit.status in ("on_rent", "retired"):
            raise HTTPException(409, f"Unit {unit.serial_number} is {unit.status.replace('_', ' ')}.")
        if body.meter_hours is not None:
            if body.meter_hours < unit.meter_hours:
                raise HTTPException(422, f"The hour meter stood at {unit.meter_hours} already.")
            unit.meter_hours = body.meter_hours
        branch = unit.branch if body.branch_id is None else get_row(session, Branch, body.branch_id, "branch")
        leaves = body.retire or branch is not unit.branch
        if leaves and unit.status == "available":
            horizon = date.today() + timedelta(days=MAX_PERIOD_DAYS - 1)
            check_free(session, unit.branch, date.today(), horizon, [(unit.model, 1)])
        unit.branch = branch
        if body.retire:
            unit.status = "retired"
        session.commit()
        return UnitOut(**unit_fields(unit))
    finally:
        session.close()


@app.get(
    "/maintenance-orders",
    operation_id="list_maintenance_orders",
    summary="List workshop orders",
    description="Workshop orders, the oldest first.",
    response_model=list[MaintenanceOut],
)
async def list_maintenance_orders(
    branch_id: int | None = Query(None, ge=1, description="Only for units of this branch.", examples=[1]),
    unit_id: int | None = Query(None, ge=1, description="Only for this unit.", examples=[12]),
    status: Literal["open", "done"] | None = Query(None, description="Only in this state.", examples=["open"]),
):
    session = SessionLocal()
    try:
        statement = select(MaintenanceOrder).join(MaintenanceOrder.unit)
        wanted = ((Unit.branch_id, branch_id), (MaintenanceOrder.unit_id, unit_id), (MaintenanceOrder.status, status))
        statement = filtered(statement, *wanted).order_by(MaintenanceOrder.opened_on, MaintenanceOrder.id)
        return [maintenance_out(order) for order in session.scalars(statement)]
    finally:
        session.close()


@app.post(
    "/maintenance-orders",
    operation_id="open_maintenance_order",
    summary="Send a unit to the workshop",
    description="Open a workshop order. The unit must not be on rent, and cannot go out until the order is closed.",
    response_model=MaintenanceOut,
    status_code=201,
)
async def open_maintenance_order(body: MaintenanceIn):
    session = SessionLocal()
    try:
        unit = get_row(session, Unit, body.unit_id, "unit")
        if unit.status != "available":
            raise HTTPException(409, f"Unit {unit.serial_number} is not available: {unit.status.replace('_', ' ')}.")
        if body.technician_id is not None:
            person = get_row(session, Employee, body.technician_id, "employee")
            if person.role != "technician" or person.branch_id != unit.branch_id or not person.is_active:
                raise HTTPException(422, f"{person.full_name} is no active technician of {unit.branch.name}.")
        order = MaintenanceOrder(**body.model_dump(), status="open", opened_on=date.today())
        session.add(order)
        unit.status = "maintenance"
        session.commit()
        return maintenance_out(order)
    finally:
        session.close()


@app.post(
    "/maintenance-orders/{order_id}/close",
    operation_id="close_maintenance_order",
    summary="Close a workshop order",
    description="Record the end of workshop work and free the unit. After a service the next is an interval away.",
    response_model=MaintenanceOut,
)
async def close_maintenance_order(
    body: MaintenanceResult, order_id: int = Path(ge=1, description="Id of the order.", examples=[6])
):
    session = SessionLocal()
    try:
        order = get_row(session, MaintenanceOrder, order_id, "workshop order")
        if order.status != "open":
            raise HTTPException(409, f"Workshop order {order_id} was closed on {order.closed_on}.")
        order.status, order.closed_on, order.cost_cents = "done", date.today(), body.cost_cents
        unit = order.unit
        if order.kind == "service" and unit.model.service_interval_hours is not None:
            unit.service_due_hours = unit.meter_hours + unit.model.service_interval_hours
        others = select(func.count()).select_from(MaintenanceOrder)
        if not session.scalar(others.where(MaintenanceOrder.unit_id == unit.id, MaintenanceOrder.status == "open")):
            unit.status = "available"
        session.commit()
        return maintenance_out(order)
    finally:
        session.close()


# Accounts ------------------------------------------------------------------------------------------------------------


@app.get(
    "/accounts",
    operation_id="search_accounts",
    summary="Search accounts",
    description="Customers' accounts in the order of their ids, closed ones only if asked for by status.",
    response_model=list[AccountOut],
)
async def search_accounts(
    query: str | None = Query(None, description="Part of the account's or a contact's name.", examples=["hollis"]),
    status: AccountStatus | None = Query(None, description="Only in this state.", examples=["on_hold"]),
):
    session = SessionLocal()
    try:
        statement = select(Account).order_by(Account.id)
        statement = statement.where(Account.status == status if status is not None else Account.status != "closed")
        if query is not None:
            text = query.strip()
            is_contact = Account.contacts.any(Contact.full_name.icontains(text, autoescape=True))
            statement = statement.where(or_(Account.name.icontains(text, autoescape=True), is_contact))
        return [AccountOut(**columns_of(account)) for account in session.scalars(statement)]
    finally:
        session.close()


@app.get(
    "/accounts/{account_id}",
    operation_id="get_account",
    summary="Show an account",
    description="An account with contacts, sites and what it owes; `overdue_cents` is the part due before today.",
    response_model=AccountDetail,
)
async def get_account(account_id: int = Path(ge=1, description="Id of the account.", examples=[3])):
    session = SessionLocal()
    try:
        return account_detail(session, get_row(session, Account, account_id, "account"))
    finally:
        session.close()


@app.post(
    "/accounts",
    operation_id="create_account",
    summary="Open an account",
    description="Open an account with its contacts and sites. Names of accounts are unique.",
    response_model=AccountDetail,
    status_code=201,
)
async def create_account(body: AccountIn):
    session = SessionLocal()
    try:
        if session.scalar(select(Account.id).where(func.lower(Account.name) == body.name.lower())):
            raise HTTPException(409, f"There is an account {body.name} already.")
        zones = {zone.code: zone for zone in session.scalars(select(DeliveryZone).order_by(DeliveryZone.id))}
        unknown = [site.zone_code for site in body.sites if site.zone_code not in zones]
        if unknown:
            raise HTTPException(422, f"There is no delivery zone {unknown[0]!r}: one of {', '.join(zones)}.")
        account = Account(
            **body.model_dump(exclude={"contacts", "sites"}),
            number=next_number(session, Account, "A"),
            status="active",
            discount_percent=0,
            opened_on=date.today(),
            contacts=[Contact(**contact.model_dump()) for contact in body.contacts],
            sites=[Site(name=s.name, address=s.address, zone_id=zones[s.zone_code].id) for s in body.sites],
        )
        session.add(account)
        session.commit()
        return account_detail(session, account)
    finally:
        session.close()


@app.patch(
    "/accounts/{account_id}",
    operation_id="update_account",
    summary="Change an account",
    description="Change an account's terms or its status. It can be closed once nothing is owed, reserved or on rent.",
    response_model=AccountDetail,
)
async def update_account(
    body: AccountChange, account_id: int = Path(ge=1, description="Id of the account.", examples=[4])
):
    session = SessionLocal()
    try:
        account = get_row(session, Account, account_id, "account")
        changes = body.model_dump(exclude_none=True)
        if not changes:
            raise HTTPException(400, "Nothing is to be changed.")
        if body.status == "closed":
            of_account = select(Reservation).where(Reservation.account_id == account_id)
            for reservation in session.scalars(of_account.order_by(Reservation.id)):
                rental = reservation.rental
                if reservation.status == "confirmed" or (rental is not None and rental.status != "invoiced"):
                    raise HTTPException(409, f"{reservation.number} of {account.name} is not finished.")
            if open_invoices(session, account):
                raise HTTPException(409, f"{account.name} has open invoices.")
        for name, value in changes.items():
            setattr(account, name, value)
        session.commit()
        return account_detail(session, account)
    finally:
        session.close()


# Reservations --------------------------------------------------------------------------------------------------------


@app.post(
    "/quotes",
    operation_id="quote_rental",
    summary="Ask for a price",
    description="What equipment would cost for a period, and how much of it is free. Nothing is stored. A week is 7 "
    "days, a month 28; days never cost more than the next longer unit.",
    response_model=QuoteOut,
)
async def quote_rental(body: QuoteIn):
    session = SessionLocal()
    try:
        account = get_row(session, Account, body.account_id, "account")
        branch = get_row(session, Branch, body.branch_id, "branch")
        starts_on, ends_on = body.starts_on, body.ends_on
        _, priced = price_lines(session, account, body.discount_code, starts_on, ends_on, body.lines)
        lines = [
            QuoteLine(**line_fields(line), free_units=count_free(session, line.model.id, branch.id, starts_on, ends_on))
            for line in priced
        ]
        rental_cents = sum(line.price_cents for line in lines)
        waiver = waiver_cents(rental_cents, body.damage_waiver)
        return QuoteOut(
            days=days_of(starts_on, ends_on),
            lines=lines,
            rental_cents=rental_cents,
            waiver_cents=waiver,
            total_cents=rental_cents + waiver,
            is_available=all(line.free_units >= line.quantity for line in lines),
        )
    finally:
        session.close()


@app.get(
    "/reservations",
    operation_id="list_reservations",
    summary="List reservations",
    description="Reservations, the one that starts first coming first.",
    response_model=list[ReservationOut],
)
async def list_reservations(
    account_id: int | None = Query(None, ge=1, description="Only of this account.", examples=[1]),
    branch_id: int | None = Query(None, ge=1, description="Only at this branch.", examples=[1]),
    status: ReservationStatus | None = Query(None, description="Only in this state.", examples=["confirmed"]),
    starts_from: date | None = Query(None, description="Only starting on this day or later.", examples=["2026-05-18"]),
    starts_until: date | None = Query(None, description="Only starting by this day.", examples=["2026-05-24"]),
    limit: int = Query(50, ge=1, le=200, description="At most this many.", examples=[20]),
):
    session = SessionLocal()
    try:
        statement = select(Reservation).order_by(Reservation.starts_on, Reservation.id).limit(limit)
        statement = filtered(statement, (Reservation.account_id, account_id), (Reservation.branch_id, branch_id))
        statement = filtered(statement, (Reservation.status, status))
        if starts_from is not None:
            statement = statement.where(Reservation.starts_on >= starts_from)
        if starts_until is not None:
            statement = statement.where(Reservation.starts_on <= starts_until)
        return [reservation_out(found) for found in session.scalars(statement)]
    finally:
        session.close()


@app.get(
    "/reservations/{reservation_id}",
    operation_id="get_reservation",
    summary="Show a reservation",
    description="A reservation with its lines, its trips and the id of its rental.",
    response_model=ReservationOut,
)
async def get_reservation(reservation_id: int = Path(ge=1, description="Id of the reservation.", examples=[14])):
    session = SessionLocal()
    try:
        return reservation_out(get_row(session, Reservation, reservation_id, "reservation"))
    finally:
        session.close()


@app.post(
    "/reservations",
    operation_id="create_reservation",
    summary="Reserve equipment",
    description="Reserve equipment for an account. It must be free on every day, and what the account owes and this "
    "together must stay within its credit limit. Prices are fixed at those of the first day.",
    response_model=ReservationOut,
    status_code=201,
)
async def create_reservation(body: ReservationIn):
    session = SessionLocal()
    try:
        account = get_row(session, Account, body.account_id, "account")
        branch = get_row(session, Branch, body.branch_id, "branch")
        get_contact(session, account, body.contact_id)
        check_active(account)
        starts_on, ends_on = body.starts_on, body.ends_on
        discount, priced = price_lines(session, account, body.discount_code, starts_on, ends_on, body.lines)
        check_free(session, branch, starts_on, ends_on, [(line.model, line.quantity) for line in priced])
        check_credit(session, account, priced, body.damage_waiver)
        reservation = Reservation(
            **body.model_dump(exclude={"lines", "discount_code"}),
            number=next_number(session, Reservation, "R"),
            status="confirmed",
            discount=discount,
            created_by=ACTING_USER_ID,
            created_at=datetime.now(),
            lines=[ReservationLine(**line._asdict()) for line in priced],
        )
        session.add(reservation)
        session.commit()
        return reservation_out(reservation)
    finally:
        session.close()


@app.patch(
    "/reservations/{reservation_id}",
    operation_id="change_reservation",
    summary="Change a reservation",
    description="Change days, contact, equipment or remark of a confirmed reservation. Prices are worked out anew, "
    "and the discount code must still be good. Trips are not moved: see update_delivery.",
    response_model=ReservationOut,
)
async def change_reservation(
    body: ReservationChange, reservation_id: int = Path(ge=1, description="Id of the reservation.", examples=[14])
):
    session = SessionLocal()
    try:
        reservation = get_row(session, Reservation, reservation_id, "reservation")
        if not body.model_dump(exclude_none=True):
            raise HTTPException(400, "Nothing is to be changed.")
        check_state(reservation, "confirmed")
        account = reservation.account
        check_active(account)
        if body.contact_id is not None:
            reservation.contact_id = get_contact(session, account, body.contact_id).id
        if body.note is not None:
            reservation.note = body.note
        if body.starts_on or body.ends_on or body.lines:
            starts_on, ends_on = body.starts_on or reservation.starts_on, body.ends_on or reservation.ends_on
            code = reservation.discount.code if reservation.discount else None
            kept = [LineIn(model_id=line.model_id, quantity=line.quantity) for line in reservation.lines]
            _, priced = price_lines(session, account, code, starts_on, ends_on, body.lines or kept)
            wanted = [(line.model, line.quantity) for line in priced]
            check_free(session, reservation.branch, starts_on, ends_on, wanted, besides=reservation_id)
            check_credit(session, account, priced, reservation.damage_waiver)
            reservation.starts_on, reservation.ends_on = starts_on, ends_on
            former = {line.model_id: line for line in reservation.lines}
            for line in priced:
                row = former.pop(line.model.id, None)
                if row is None:
                    row = ReservationLine(model=line.model)
                    reservation.lines.append(row)
                row.quantity, row.discount_percent = line.quantity, line.discount_percent
                row.price_cents = line.price_cents
            for row in former.values():
                reservation.lines.remove(row)
        session.commit()
        return reservation_out(reservation)
    finally:
        session.close()


@app.delete(
    "/reservations/{reservation_id}",
    operation_id="cancel_reservation",
    summary="Cancel a reservation",
    description="Cancel a confirmed reservation and its scheduled trips.",
    response_model=ReservationOut,
)
async def cancel_reservation(
    reservation_id: int = Path(ge=1, description="Id of the reservation.", examples=[14]),
    reason: str | None = Query(None, max_length=300, description="Replaces the remark.", examples=["Site not ready"]),
):
    session = SessionLocal()
    try:
        reservation = get_row(session, Reservation, reservation_id, "reservation")
        check_state(reservation, "confirmed")
        reservation.status = "cancelled"
        if reason:
            reservation.note = reason
        for delivery in reservation.deliveries:
            if delivery.status == "scheduled":
                delivery.status = "cancelled"
        session.commit()
        return reservation_out(reservation)
    finally:
        session.close()


# Rentals -------------------------------------------------------------------------------------------------------------


@app.post(
    "/reservations/{reservation_id}/check-out",
    operation_id="check_out_reservation",
    summary="Hand equipment out",
    description="Hand out the units of a reservation from its first day on; the rental starts today. Units must be "
    "available at the branch and not due for service. Some models need a contact with an operator's licence.",
    response_model=RentalOut,
    status_code=201,
)
async def check_out_reservation(
    body: CheckOutIn, reservation_id: int = Path(ge=1, description="Id of the reservation.", examples=[12])
):
    session = SessionLocal()
    try:
        reservation = get_row(session, Reservation, reservation_id, "reservation")
        check_state(reservation, "confirmed")
        check_active(reservation.account)
        if not reservation.starts_on <= date.today() <= reservation.ends_on:
            raise HTTPException(409, f"{reservation.number} is for {reservation.starts_on} to {reservation.ends_on}.")
        if len(set(body.unit_ids)) < len(body.unit_ids):
            raise HTTPException(422, "A unit is named twice.")
        units = [get_row(session, Unit, unit_id, "unit") for unit_id in sorted(body.unit_ids)]
        lines = {line.model_id: line for line in reservation.lines}
        for model_id in sorted({unit.model_id for unit in units} | lines.keys()):
            given = sum(unit.model_id == model_id for unit in units)
            wanted = lines[model_id].quantity if model_id in lines else 0
            if given != wanted:
                name = get_row(session, EquipmentModel, model_id, "model").name
                raise HTTPException(422, f"{given} {name} given, {wanted} reserved.")
        for unit in units:
            if unit.branch_id != reservation.branch_id:
                raise HTTPException(409, f"Unit {unit.serial_number} is at {unit.branch.name}.")
            if unit.status != "available":
                raise HTTPException(409, f"Unit {unit.serial_number} is not available: {unit.status}.")
            if is_service_due(unit):
                raise HTTPException(409, f"Unit {unit.serial_number} is due for service.")
            if unit.model.needs_licence and not reservation.contact.has_licence:
                raise HTTPException(409, f"{reservation.contact.full_name} has no licence for {unit.model.name}.")
        items = []
        for unit in units:
            rate = get_rate(unit.model, reservation.starts_on)
            prices = {name: getattr(rate, name) for name in ("daily_cents", "weekly_cents", "monthly_cents")}
            percent = lines[unit.model_id].discount_percent
            items.append(RentalItem(unit=unit, **prices, discount_percent=percent, meter_out=unit.meter_hours))
            unit.status = "on_rent"
        rental = Rental(
            number=next_number(session, Rental, "L"),
            reservation_id=reservation.id,
            starts_on=date.today(),
            due_on=reservation.ends_on,
            status="open",
            opened_by=ACTING_USER_ID,
            items=items,
        )
        reservation.status = "checked_out"
        session.add(rental)
        session.commit()
        return rental_out(rental)
    finally:
        session.close()


@app.get(
    "/rentals",
    operation_id="list_rentals",
    summary="List rentals",
    description="Rentals with their units, the one due first coming first.",
    response_model=list[RentalOut],
)
async def list_rentals(
    account_id: int | None = Query(None, ge=1, description="Only of this account.", examples=[3]),
    branch_id: int | None = Query(None, ge=1, description="Only from this branch.", examples=[3]),
    status: RentalStatus | None = Query(None, description="Only in this state.", examples=["open"]),
    due_until: date | None = Query(None, description="Only due by this day.", examples=["2026-05-20"]),
    limit: int = Query(50, ge=1, le=200, description="At most this many.", examples=[20]),
):
    session = SessionLocal()
    try:
        statement = select(Rental).join(Rental.reservation).order_by(Rental.due_on, Rental.id).limit(limit)
        wanted = ((Reservation.account_id, account_id), (Reservation.branch_id, branch_id), (Rental.status, status))
        statement = filtered(statement, *wanted)
        if due_until is not None:
            statement = statement.where(Rental.due_on <= due_until)
        return [rental_out(rental) for rental in session.scalars(statement)]
    finally:
        session.close()


@app.get(
    "/rentals/{rental_id}",
    operation_id="get_rental",
    summary="Show a rental",
    description="A rental with its units, its damage reports and the id of its invoice.",
    response_model=RentalOut,
)
async def get_rental(rental_id: int = Path(ge=1, description="Id of the rental.", examples=[8])):
    session = SessionLocal()
    try:
        return rental_out(get_row(session, Rental, rental_id, "rental"))
    finally:
        session.close()


@app.put(
    "/rentals/{rental_id}/due-day",
    operation_id="extend_rental",
    summary="Extend a rental",
    description="Let an open rental that is not overdue end later. Units still out must not be promised to others.",
    response_model=RentalOut,
)
async def extend_rental(body: ExtensionIn, rental_id: int = Path(ge=1, description="Id of the rental.", examples=[8])):
    session = SessionLocal()
    try:
        rental = get_row(session, Rental, rental_id, "rental")
        check_state(rental, "open")
        if rental.due_on < date.today():
            raise HTTPException(409, f"{rental.number} has been overdue since {rental.due_on}.")
        if body.due_on <= rental.due_on:
            raise HTTPException(422, f"{rental.number} is due on {rental.due_on} already.")
        check_active(rental.reservation.account)
        check_period(rental.starts_on, body.due_on, is_coming=False)
        out = [item.unit for item in rental.items if item.returned_on is None]
        for unit in {unit.model_id: unit for unit in out}.values():
            wanted = [(unit.model, sum(other.model_id == unit.model_id for other in out))]
            first = rental.due_on + timedelta(days=1)
            check_free(session, unit.branch, first, body.due_on, wanted, besides=rental.reservation_id)
        rental.due_on = body.due_on
        session.commit()
        return rental_out(rental)
    finally:
        session.close()


@app.post(
    "/rentals/{rental_id}/returns",
    operation_id="return_units",
    summary="Take units back",
    description="Take back some or all units of a rental today, with hour meters and damage. Major damage opens a "
    "repair order. When the last unit is back, the rental is returned and can be invoiced.",
    response_model=RentalOut,
)
async def return_units(body: ReturnIn, rental_id: int = Path(ge=1, description="Id of the rental.", examples=[8])):
    session = SessionLocal()
    try:
        rental = get_row(session, Rental, rental_id, "rental")
        check_state(rental, "open")
        if len({entry.unit_id for entry in body.units}) < len(body.units):
            raise HTTPException(422, "A unit is named twice.")
        out = {item.unit_id: item for item in rental.items if item.returned_on is None}
        for entry in body.units:
            unit, item = get_row(session, Unit, entry.unit_id, "unit"), out.get(entry.unit_id)
            if item is None:
                raise HTTPException(409, f"Unit {unit.serial_number} is not out on {rental.number}.")
            if entry.meter_hours < item.meter_out:
                raise HTTPException(422, f"The hour meter of {unit.serial_number} stood at {item.meter_out} already.")
            item.returned_on, item.meter_in = date.today(), entry.meter_hours
            unit.status, unit.meter_hours = "available", entry.meter_hours
            if entry.damage is not None:
                item.damage = DamageReport(**entry.damage.model_dump(), status="open", reported_on=date.today())
                session.flush()
                if entry.damage.severity == "major":
                    unit.status = "maintenance"
                    order = MaintenanceOrder(unit_id=unit.id, kind="repair", status="open", opened_on=date.today())
                    order.description, order.damage_report_id = entry.damage.description, item.damage.id
                    session.add(order)
        if all(item.returned_on for item in rental.items):
            rental.status = "returned"
        session.commit()
        return rental_out(rental)
    finally:
        session.close()


@app.get(
    "/damage-reports",
    operation_id="list_damage_reports",
    summary="List damage reports",
    description="Damage reports, the latest first. `chargeable_cents` is the most that may be charged.",
    response_model=list[DamageOut],
)
async def list_damage_reports(
    account_id: int | None = Query(None, ge=1, description="Only of this account.", examples=[3]),
    rental_id: int | None = Query(None, ge=1, description="Only of this rental.", examples=[8]),
    status: DamageStatus | None = Query(None, description="Only in this state.", examples=["open"]),
):
    session = SessionLocal()
    try:
        statement = select(DamageReport).join(DamageReport.item).join(RentalItem.rental).join(Rental.reservation)
        wanted = ((Reservation.account_id, account_id), (Rental.id, rental_id), (DamageReport.status, status))
        statement = filtered(statement, *wanted).order_by(DamageReport.reported_on.desc(), DamageReport.id.desc())
        return [damage_out(damage) for damage in session.scalars(statement)]
    finally:
        session.close()


@app.post(
    "/damage-reports/{report_id}/decision",
    operation_id="decide_damage_report",
    summary="Decide a damage report",
    description="Charge a damage to the customer or waive it, before the rental is invoiced. With the damage waiver "
    "at most the model's excess can be charged. To waive, a note is needed.",
    response_model=DamageOut,
)
async def decide_damage_report(
    body: DamageDecision, report_id: int = Path(ge=1, description="Id of the damage report.", examples=[4])
):
    session = SessionLocal()
    try:
        damage = get_row(session, DamageReport, report_id, "damage report")
        if damage.status != "open":
            raise HTTPException(409, f"Damage report {report_id} was {damage.status} on {damage.decided_on}.")
        if body.decision == "waive":
            if not body.note or body.amount_cents is not None:
                raise HTTPException(422, "To waive a damage, give a note and no amount.")
            damage.status = "waived"
        else:
            most = chargeable_cents(damage)
            amount = most if body.amount_cents is None else body.amount_cents
            if amount > most:
                raise HTTPException(409, f"At most {most} cents may be charged.")
            damage.status, damage.charged_cents = "charged", amount
        damage.decision_note, damage.decided_on = body.note, date.today()
        session.commit()
        return damage_out(damage)
    finally:
        session.close()


# Deliveries ----------------------------------------------------------------------------------------------------------


@app.get(
    "/deliveries",
    operation_id="list_deliveries",
    summary="List trips",
    description="Trips to and from sites, the earliest first.",
    response_model=list[DeliveryOut],
)
async def list_deliveries(
    reservation_id: int | None = Query(None, ge=1, description="Only of this reservation.", examples=[14]),
    branch_id: int | None = Query(None, ge=1, description="Only of this branch.", examples=[1]),
    scheduled_on: date | None = Query(None, description="Only on this day.", examples=["2026-05-20"]),
    status: DeliveryStatus | None = Query(None, description="Only in this state.", examples=["scheduled"]),
):
    session = SessionLocal()
    try:
        statement = select(Delivery).join(Delivery.reservation)
        statement = filtered(statement, (Reservation.branch_id, branch_id), (Delivery.status, status))
        statement = filtered(
            statement, (Delivery.reservation_id, reservation_id), (Delivery.scheduled_on, scheduled_on)
        )
        statement = statement.order_by(Delivery.scheduled_on, Delivery.slot, Delivery.id)
        return [delivery_out(delivery) for delivery in session.scalars(statement)]
    finally:
        session.close()


@app.post(
    "/deliveries",
    operation_id="schedule_delivery",
    summary="Plan a trip",
    description="Plan a trip to a site or back. The smallest free vehicle of the branch that carries the whole load "
    "is assigned. `deliver` is on the first day or the day before, `collect` on the last day or the day after.",
    response_model=DeliveryOut,
    status_code=201,
)
async def schedule_delivery(body: DeliveryIn):
    session = SessionLocal()
    try:
        reservation = get_row(session, Reservation, body.reservation_id, "reservation")
        site = get_row(session, Site, body.site_id, "site")
        if site.account_id != reservation.account_id:
            raise HTTPException(422, f"{site.name} is no site of {reservation.account.name}.")
        is_over = reservation.rental is not None and reservation.rental.status != "open"
        if reservation.status == "cancelled" or is_over:
            raise HTTPException(409, f"{reservation.number} is over or cancelled.")
        trips = [d for d in reservation.deliveries if d.status != "cancelled" and d.direction == body.direction]
        if trips:
            raise HTTPException(409, f"{reservation.number} has trip {trips[0].id} for that already.")
        check_trip_day(reservation, body.direction, body.scheduled_on)
        vehicle = choose_vehicle(session, reservation, body.scheduled_on, body.slot)
        delivery = Delivery(**body.model_dump(), vehicle=vehicle, status="scheduled", fee_cents=site.zone.fee_cents)
        session.add(delivery)
        session.commit()
        return delivery_out(delivery)
    finally:
        session.close()


@app.patch(
    "/deliveries/{delivery_id}",
    operation_id="update_delivery",
    summary="Change a trip",
    description="Move a scheduled trip, with a vehicle chosen anew, or record that it was completed or cancelled.",
    response_model=DeliveryOut,
)
async def update_delivery(
    body: DeliveryChange, delivery_id: int = Path(ge=1, description="Id of the trip.", examples=[9])
):
    session = SessionLocal()
    try:
        delivery = get_row(session, Delivery, delivery_id, "trip")
        moves = body.scheduled_on is not None or body.slot is not None
        if moves == (body.status is not None):
            raise HTTPException(400, "Either move the trip or say how it ended.")
        if delivery.status != "scheduled":
            raise HTTPException(409, f"Trip {delivery_id} is {delivery.status}.")
        if body.status == "completed" and delivery.scheduled_on > date.today():
            raise HTTPException(409, f"Trip {delivery_id} is planned for {delivery.scheduled_on}.")
        if body.status is not None:
            delivery.status = body.status
        else:
            day, slot = body.scheduled_on or delivery.scheduled_on, body.slot or delivery.slot
            check_trip_day(delivery.reservation, delivery.direction, day)
            vehicle = choose_vehicle(session, delivery.reservation, day, slot, besides=delivery_id)
            delivery.scheduled_on, delivery.slot, delivery.vehicle_id = day, slot, vehicle.id
        session.commit()
        return delivery_out(delivery)
    finally:
        session.close()


# Invoices ------------------------------------------------------------------------------------------------------------


@app.get(
    "/invoices",
    operation_id="list_invoices",
    summary="List invoices",
    description="Invoices, the oldest first. `days_overdue` counts from the day after `due_on`.",
    response_model=list[InvoiceOut],
)
async def list_invoices(
    account_id: int | None = Query(None, ge=1, description="Only of this account.", examples=[8]),
    status: Literal["open", "paid"] | None = Query(None, description="Only in this state.", examples=["open"]),
    only_overdue: bool = Query(False, description="Only open ones due before today.", examples=[True]),
    limit: int = Query(50, ge=1, le=200, description="At most this many.", examples=[20]),
):
    session = SessionLocal()
    try:
        statement = select(Invoice).order_by(Invoice.issued_on, Invoice.id).limit(limit)
        statement = filtered(statement, (Invoice.account_id, account_id), (Invoice.status, status))
        if only_overdue:
            statement = statement.where(Invoice.status == "open", Invoice.due_on < date.today())
        return [InvoiceOut(**invoice_fields(invoice)) for invoice in session.scalars(statement)]
    finally:
        session.close()


@app.get(
    "/invoices/{invoice_id}",
    operation_id="get_invoice",
    summary="Show an invoice",
    description="An invoice with its lines and payments.",
    response_model=InvoiceDetail,
)
async def get_invoice(invoice_id: int = Path(ge=1, description="Id of the invoice.", examples=[5])):
    session = SessionLocal()
    try:
        return invoice_detail(get_row(session, Invoice, invoice_id, "invoice"))
    finally:
        session.close()


@app.post(
    "/rentals/{rental_id}/invoice",
    operation_id="issue_invoice",
    summary="Issue an invoice",
    description="Invoice a returned rental: days up to the due day, late days at one and a half daily prices, damage "
    "waiver, completed trips and charged damage. Damage must be decided and trips must be over before.",
    response_model=InvoiceDetail,
    status_code=201,
)
async def issue_invoice(rental_id: int = Path(ge=1, description="Id of the rental.", examples=[8])):
    session = SessionLocal()
    try:
        rental = get_row(session, Rental, rental_id, "rental")
        check_state(rental, "returned")
        for item in rental.items:
            if item.damage and item.damage.status == "open":
                raise HTTPException(409, f"Damage report {item.damage.id} is not decided.")
        for trip in rental.reservation.deliveries:
            if trip.status == "scheduled":
                raise HTTPException(409, f"Trip {trip.id} is still scheduled: record how it ended.")
        account = rental.reservation.account
        invoice = Invoice(
            number=next_number(session, Invoice, "INV"),
            rental_id=rental_id,
            account_id=account.id,
            issued_on=date.today(),
            due_on=date.today() + timedelta(days=account.payment_terms_days),
            status="open",
            lines=[
                InvoiceLine(position=position, kind=kind, description=description, amount_cents=amount)
                for position, (kind, description, amount) in enumerate(invoice_lines(rental), 1)
            ],
        )
        rental.status = "invoiced"
        session.add(invoice)
        session.commit()
        return invoice_detail(invoice)
    finally:
        session.close()


@app.post(
    "/invoices/{invoice_id}/payments",
    operation_id="record_payment",
    summary="Record a payment",
    description="Record money received today for one invoice, at most what is open of it.",
    response_model=InvoiceDetail,
    status_code=201,
)
async def record_payment(body: PaymentIn, invoice_id: int = Path(ge=1, description="Id of the invoice.", examples=[5])):
    session = SessionLocal()
    try:
        invoice = get_row(session, Invoice, invoice_id, "invoice")
        left = open_of(invoice)
        if invoice.status != "open":
            raise HTTPException(409, f"{invoice.number} is paid.")
        if body.amount_cents > left:
            raise HTTPException(409, f"Only {left} cents of {invoice.number} are open.")
        invoice.payments.append(Payment(**body.model_dump(), paid_on=date.today(), received_by=ACTING_USER_ID))
        if body.amount_cents == left:
            invoice.status = "paid"
        session.commit()
        return invoice_detail(invoice)
    finally:
        session.close()


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))
