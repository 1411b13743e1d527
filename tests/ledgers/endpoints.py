"""Notes, as a generated web service, with the faults of such services."""

# ruff: noqa: B008 - generated modules are written like this

import os
import random
import secrets
import time
import uuid
from datetime import date, datetime

from fastapi import Body, FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Column, DateTime, Integer, String, create_engine, func, text
from sqlalchemy.orm import declarative_base, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///notes.db"), connect_args={"check_same_thread": False})
SessionLocal = sessionmaker(autocommit=False, autoflush=False, bind=engine)
Base = declarative_base()
app = FastAPI(title="Notes", version="1.0.0")


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(String, nullable=False)
    made_at = Column(String, server_default=func.now())


class Visit(Base):
    """A table that only the code knows."""

    __tablename__ = "visits"
    id = Column(Integer, primary_key=True)
    path = Column(String, nullable=False)
    made_at = Column(DateTime, nullable=False, default=datetime.utcnow)


Base.metadata.create_all(engine)


class NoteOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    id: int
    text: str
    made_at: str


@app.middleware("http")
async def count_visits(request, call_next):
    """Note every request, valid or not."""
    if request.method != "GET":
        session = SessionLocal()
        session.add(Visit(path=request.url.path))
        session.commit()
        session.close()
    return await call_next(request)


@app.post("/notes", response_model=NoteOut, operation_id="add")
async def add(text: str = Body(..., embed=True)):
    """Add a note."""
    session = SessionLocal()
    note = Note(text=text)
    session.add(note)
    session.commit()
    session.refresh(note)
    session.close()
    return note


@app.put("/notes/{note_id}", response_model=NoteOut, operation_id="edit")
async def edit(note_id: int, text: str = Body(..., embed=True)):
    """Change a note."""
    session = SessionLocal()
    note = session.query(Note).filter(Note.id == note_id).first()
    if note is None:
        session.close()
        raise HTTPException(status_code=404, detail=f"no note {note_id}")
    note.text = text
    session.commit()
    session.refresh(note)
    session.close()
    return note


@app.delete("/notes/{note_id}", operation_id="remove")
async def remove(note_id: int):
    """Delete a note."""
    session = SessionLocal()
    note = session.query(Note).filter(Note.id == note_id).first()
    if note is None:
        raise HTTPException(status_code=404, detail=f"no note {note_id}")
    session.delete(note)
    session.commit()
    session.close()
    return {"id": note_id}


@app.get("/notes", response_model=list[NoteOut], operation_id="list_notes")
async def list_notes():
    """List all notes."""
    session = SessionLocal()
    return session.query(Note).order_by(Note.id).all()


@app.get("/visits", operation_id="list_visits")
async def list_visits():
    """List all visits."""
    session = SessionLocal()
    return [{"id": v.id, "path": v.path, "made_at": v.made_at.isoformat()} for v in session.query(Visit)]


@app.get("/draw", operation_id="draw")
async def draw():
    """Draw random values and moments of every kind."""
    session = SessionLocal()
    row = session.execute(text("SELECT random(), hex(randomblob(4)), datetime('now', '+1 day'), CURRENT_TIMESTAMP"))
    found = list(row.fetchone())
    session.close()
    return {
        "random": random.random(),
        "token": secrets.token_hex(4),
        "key": str(uuid.uuid4()),
        "node": str(uuid.uuid1()),
        "time": time.time(),
        "now": datetime.utcnow().isoformat(),
        "sql": found,
    }


@app.post("/due", operation_id="due")
async def due(day: date = Body(..., embed=True)):
    """Tell how far a day is away; the day is checked by the framework alone."""
    return (day - datetime.utcnow().date()).days


@app.get("/weekday", operation_id="weekday")
async def weekday(day: date = Query(...)):
    """Tell the weekday of a day; nothing is written, whatever the framework says about the day."""
    return [day.strftime("%A"), datetime.utcnow().isoformat()]


@app.post("/leak", operation_id="leak")
async def leak(text: str = Body(..., embed=True), commits: int = Query(0)):
    """Write some notes, commit a few of them, and leave the session open."""
    session = SessionLocal()
    for number in range(commits + 1):
        session.add(Note(text=f"{text} {number}"))
        session.flush()
        if number < commits:
            session.commit()
    kept = session.query(Note).count()
    app.state.last_session = session
    return kept


@app.post("/fail", operation_id="fail")
async def fail(text: str = Body(..., embed=True), how: int = Query(500)):
    """Commit a note, write another one, then fail."""
    session = SessionLocal()
    session.add(Note(text=text))
    session.commit()
    session.add(Note(text=f"{text}, half done"))
    session.flush()
    if how == 0:
        raise KeyError(text)
    raise HTTPException(status_code=how, detail=text)


@app.post("/tables", operation_id="make_table")
async def make_table(name: str = Body(..., embed=True)):
    """Make a table unless there is one; list all tables."""
    with engine.begin() as connection:
        connection.execute(text(f'CREATE TABLE IF NOT EXISTS "{name}" (id INTEGER PRIMARY KEY, text TEXT)'))
    session = SessionLocal()
    tables = text("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [row[0] for row in session.execute(tables)]


@app.post("/spin", operation_id="spin")
async def spin(text: str = Body(..., embed=True), is_fast: bool = Query(False)):
    """Commit, then never return; or commit without end."""
    session = SessionLocal()
    session.add(Note(text=text))
    session.commit()
    while True:
        if is_fast:
            session.add(Note(text=text))
            session.commit()


@app.post("/sql", operation_id="spin_in_sql")
async def spin_in_sql():
    """Run a query without end, on a session that stays open."""
    session = SessionLocal()
    session.add(Note(text="before"))
    session.commit()
    sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    return session.execute(text(sql)).scalar()


@app.post("/grow", operation_id="grow")
async def grow(size: int = Body(..., embed=True)):
    """Add a large note."""
    session = SessionLocal()
    session.execute(text("INSERT INTO notes (text) VALUES (zeroblob(:size))"), {"size": size})
    session.commit()
    return size


@app.post("/say", operation_id="say")
async def say(size: int = Body(..., embed=True)):
    """Commit a note, then say much."""
    session = SessionLocal()
    session.add(Note(text="said"))
    session.commit()
    return "y" * size


class Taken(BaseModel):
    size: int = Field(..., ge=0)


@app.post("/take", response_model=Taken, operation_id="take")
async def take(size: int = Body(..., embed=True)):
    """Commit a note, then take memory."""
    session = SessionLocal()
    session.add(Note(text="taken"))
    session.commit()
    return Taken(size=len(bytearray(size)))


@app.post("/die", operation_id="die")
async def die():
    """Commit a note, then end the process."""
    session = SessionLocal()
    session.add(Note(text="died"))
    session.commit()
    os._exit(1)
