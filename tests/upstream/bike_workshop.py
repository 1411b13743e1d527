"""A workshop that repairs bikes: written for these tests in the form of generated modules, with all their traps."""

# ruff: noqa: B008, UP042, UP045 - generated modules are written like this

import asyncio
import os
from collections.abc import Iterator
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Literal, Optional

from fastapi import APIRouter, BackgroundTasks, Cookie, Depends, FastAPI, Header, HTTPException, Path, Query, Response
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Column, DateTime, Float, ForeignKey, Integer, String, create_engine, func
from sqlalchemy.orm import Session, declarative_base, relationship, sessionmaker
from starlette.middleware.base import BaseHTTPMiddleware

DATABASE_PATH = os.getenv("DATABASE_PATH", "sqlite:///workshop.db")
engine = create_engine(DATABASE_PATH, connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(autocommit=False, autoflush=False, bind=engine)
Base = declarative_base()
app = FastAPI(title="Bike workshop", version="1.0.0")


class Bike(Base):
    __tablename__ = "bikes"
    id = Column(Integer, primary_key=True)
    frame_number = Column(String, unique=True, nullable=False)
    title = Column(String, nullable=False)
    owner = Column(String)
    arrived_at = Column(DateTime, nullable=False, default=datetime.utcnow)
    updated_at = Column(DateTime, nullable=False, server_default=func.now(), onupdate=func.now())
    repairs = relationship("Repair", back_populates="bike", cascade="all, delete-orphan")


class Repair(Base):
    __tablename__ = "repairs"
    id = Column(Integer, primary_key=True)
    bike_id = Column(Integer, ForeignKey("bikes.id"), nullable=False)
    kind = Column(String, nullable=False)
    price = Column(Float, nullable=False, default=0)
    noted_at = Column(DateTime, nullable=False, default=func.now())
    bike = relationship("Bike", back_populates="repairs")


class LogEntry(Base):
    """A table that only the code knows."""

    __tablename__ = "log_entries"
    id = Column(Integer, primary_key=True)
    text = Column(String, nullable=False)
    made_at = Column(DateTime, nullable=False, default=datetime.utcnow)


Base.metadata.create_all(engine)


class Kind(str, Enum):
    brake = "brake"
    gear = "gear"


class BikeIn(BaseModel):
    frame_number: str = Field(..., min_length=3, max_length=20, json_schema_extra={"example": "FR-900"})
    title: str = Field(..., description="What it is called")
    owner: Optional[str] = Field(None, description="Whose it is")


class BikeOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int
    frame_number: str
    title: str
    arrived_at: datetime
    updated_at: datetime


class Part(BaseModel):
    name: str
    count: int = 1


class RepairIn(BaseModel):
    bike_id: int
    kind: Kind
    price: float = Field(0, ge=0)
    due: Optional[date] = None
    parts: list[Part] = Field(default_factory=list)


class Move(BaseModel):
    bike_id: int
    owner: str


class Stamp(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers["x-workshop"] = request.url.path
        return response


app.add_middleware(Stamp)


@app.on_event("startup")
def open_shop():
    session = SessionLocal()
    if session.query(LogEntry).count() == 0:
        session.add(LogEntry(text="the shop is open"))
        session.commit()
    session.close()


def get_session() -> Iterator[Session]:
    session = SessionLocal()
    try:
        yield session
    finally:
        session.close()


def count_repairs() -> int:
    session = SessionLocal()
    count = session.query(Repair).count()
    session.close()
    return count


def write_log(text: str) -> None:
    session = SessionLocal()
    session.add(LogEntry(text=text))
    session.commit()
    session.close()


async def write_log_later(text: str) -> None:
    await asyncio.sleep(0)
    write_log(text)


@app.get("/bikes", operation_id="list_bikes", summary="List bikes", response_model=list[BikeOut])
async def list_bikes(
    owner: Optional[str] = Query(None, description="Only of this owner", example="Ada"),
    ids: Optional[list[int]] = Query(None, description="Only these"),
    limit: int = Query(10, ge=1, le=100),
    newest_first: bool = Query(False, alias="newestFirst"),
):
    session = SessionLocal()
    query = session.query(Bike)
    if owner is not None:
        query = query.filter(Bike.owner == owner)
    if ids:
        query = query.filter(Bike.id.in_(ids))
    found = query.order_by(Bike.id.desc() if newest_first else Bike.id).limit(limit).all()
    result = [BikeOut.model_validate(b) for b in found]
    session.close()
    return result


@app.get("/bikes/{bike_id}", operation_id="get_bike", response_model=BikeOut)
async def get_bike(bike_id: int = Path(..., description="Its id")):
    session = SessionLocal()
    bike = session.get(Bike, bike_id)
    if bike is None:
        session.close()
        raise HTTPException(status_code=404, detail="no such bike")
    result = BikeOut.model_validate(bike)
    session.close()
    return result


@app.get("/bikes/search", operation_id="search_bikes")
async def search_bikes(text: str):
    return {"never": "reached", "text": text}


@app.post("/bikes", operation_id="add_bike", response_model=BikeOut, status_code=201)
async def add_bike(bike: BikeIn):
    session = SessionLocal()
    row = Bike(frame_number=bike.frame_number, title=bike.title, owner=bike.owner)
    session.add(row)
    session.commit()
    session.refresh(row)
    result = BikeOut.model_validate(row)
    session.close()
    return result


@app.put("/bikes/{bike_id}/owner", operation_id="move_bike")
async def move_bike(bike_id: int, move: Move, session: Session = Depends(get_session)):
    bike = session.get(Bike, bike_id)
    if move.bike_id != bike_id:
        raise HTTPException(status_code=422, detail="the ids differ")
    if bike is None:
        raise HTTPException(status_code=404, detail={"missing": bike_id})
    if bike.owner == move.owner:
        raise HTTPException(status_code=409, detail="it is theirs already")
    bike.owner = move.owner
    session.commit()
    return {"id": bike.id, "owner": bike.owner, "updated_at": bike.updated_at}


@app.delete("/bikes/{bike_id}", operation_id="remove_bike", status_code=204)
def remove_bike(bike_id: int, session: Session = Depends(get_session)):
    session.delete(session.get(Bike, bike_id))
    session.commit()


@app.post("/repairs", operation_id="add_repair")
async def add_repair(repair: RepairIn):
    session = SessionLocal()
    row = Repair(bike_id=repair.bike_id, kind=repair.kind.value, price=repair.price)
    session.add(row)
    session.flush()
    before = count_repairs()
    session.commit()
    result = {
        "id": row.id, "due": repair.due, "parts": {p.name: p.count for p in repair.parts}, "counted": before >= 0,
        "noted_at": row.noted_at,
    }  # fmt: skip
    session.close()
    return result


@app.post("/repairs", operation_id="add_repair_again")
async def add_repair_again(repair: RepairIn):
    return {"never": "reached"}


@app.post("/repairs/price", operation_id="set_price")
async def set_price(repair_id: int, price: float):
    session = SessionLocal()
    repair = session.query(Repair).filter_by(id=repair_id).first()
    repair.price = price
    session.flush()
    if price > 1000:
        raise RuntimeError("too dear")
    session.commit()
    session.close()
    return {"id": repair_id, "price": price}


@app.get("/repairs/by_kind", operation_id="repairs_by_kind")
async def repairs_by_kind(kind: Kind, sort: Literal["price", "id"] = "id"):
    session = SessionLocal()
    found = session.query(Repair).filter(Repair.kind == kind).order_by(getattr(Repair, sort)).all()
    result = [{"id": r.id, "title": r.bike.title if r.bike else None, "price": r.price} for r in found]
    session.close()
    return result


@app.get("/who", operation_id="who", tags=["desk"])
async def who(x_desk: Annotated[Optional[str], Header()] = None, badge: Annotated[Optional[str], Cookie()] = None):
    return {"desk": x_desk, "badge": badge}


@app.post("/tally", operation_id="tally")
async def tally(numbers: list[int]):
    return {"sum": sum(numbers), "largest": max(numbers)}


@app.get("/log", operation_id="read_log")
def read_log(session: Session = Depends(get_session)):
    return [{"text": e.text, "made_at": e.made_at} for e in session.query(LogEntry).order_by(LogEntry.id)]


@app.post("/log", operation_id="note")
async def note(text: str, background: BackgroundTasks, fails: bool = False):
    background.add_task(write_log, text)
    if fails:
        background.add_task(lambda: 1 / 0)
    return {"noted": text}


@app.post("/log/later", operation_id="note_later")
async def note_later(text: str):
    asyncio.create_task(write_log_later(text))  # noqa: RUF006
    return {"noted": text}


@app.get("/forms/{form:path}", operation_id="get_form")
async def get_form(form: str):
    kinds = {
        "plain": lambda: PlainTextResponse("a plain text"),
        "stream": lambda: StreamingResponse(iter(["one ", "two"]), media_type="text/plain"),
        "moved": lambda: RedirectResponse("/forms/plain"),
        "teapot": lambda: JSONResponse({"error": "short and stout"}, status_code=418),
        "busy": lambda: JSONResponse({"detail": "come back later"}, status_code=503),
        "nothing": lambda: Response(status_code=204),
    }
    return kinds[form]()


@app.get("/deals", operation_id="deals")
async def deals():
    session = SessionLocal()
    one = session.query(Repair).order_by(Repair.id).first()
    return {"cheapest": one.missing_attribute}


router = APIRouter(prefix="/stats", tags=["stats"])


@router.get("/owners/{owner}", operation_id="owner_stats")
async def owner_stats(owner: str, since: Optional[datetime] = None):
    session = SessionLocal()
    query = session.query(Bike).filter(Bike.owner == owner)
    if since is not None:
        query = query.filter(Bike.arrived_at >= since)
    result = {"owner": owner, "bikes": query.count(), "asked_at": datetime.utcnow(), "today": date.today()}
    session.close()
    return result


app.include_router(router)

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host=os.getenv("HOST", "127.0.0.1"), port=int(os.getenv("PORT", "8000")))
