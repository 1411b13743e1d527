"""The default embedder tells paraphrases from neighbours, offline; others are taken by name and checked."""

import logging
import math
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

from awm_hub.errors import UsageError
from awm_hub.synthesis.embedding import (
    PAPER_SAME_FROM,
    Embedder,
    WordLlamaEmbedder,
    cosine,
    embedder_from,
    same_from,
    vectors,
)
from awm_hub.synthesis.seeds import default_seeds

PARAPHRASES = [
    ("Marina berth management: Boats, berths and mooring contracts of a marina.",
     "Marina mooring office: Berths, boats, mooring contracts and harbour fees of a marina."),
    ("Community theatre box office: Shows, seats and ticket sales of a theatre.",
     "Small theatre ticketing: Performances, seats, ticket sales and refunds at a community theatre."),
    ("Vet clinic appointment book: Owners, pets, visits and invoices.",
     "Animal clinic scheduling: Pets and their owners, appointments, vaccinations, invoices."),
    ("Tool lending library: Members borrow tools, loans and fines.",
     "Neighbourhood tool library: Tools, members, loans, returns and late fees."),
    ("School bus routing: Buses, drivers, stops and pupils.",
     "Pupil transport planner: School buses, routes, stops, drivers and pupils."),
    ("Blood bank inventory: Donors, donations and blood units with expiry dates.",
     "Blood donation centre stock: Donors, donated blood units, expiry and hospital orders."),
    ("Food truck permits: Vendors, trucks, permits and inspections of a city.",
     "Mobile food vendor licensing: Trucks, vendors, permits, inspections in a city."),
    ("Podcast production planner: Shows, episodes, guests and sponsors.",
     "Podcast studio schedule: Episodes, shows, guests, sponsors and recordings."),
]  # fmt: skip
NEIGHBOURS = [
    ("Marina berth management: Boats, berths and mooring contracts of a marina.",
     "Airport parking reservations: Car parks, bookings and number plates at an airport."),
    ("Community theatre box office: Shows, seats and ticket sales of a theatre.",
     "Cinema programme planning: Films, halls, showings and distributors' fees of a cinema."),
    ("Vet clinic appointment book: Owners, pets, visits and invoices.",
     "Dental practice scheduling: Patients, dentists, treatments and invoices of a dental practice."),
    ("Tool lending library: Members borrow tools, loans and fines.",
     "Public library branches: Books, members, loans, holds and fines."),
    ("School bus routing: Buses, drivers, stops and pupils.",
     "Coach charter bookings: Coaches, drivers, trips and groups that charter them."),
    ("Blood bank inventory: Donors, donations and blood units with expiry dates.",
     "Food bank inventory: Donors, donations and food parcels with expiry dates."),
    ("Food truck permits: Vendors, trucks, permits and inspections of a city.",
     "Building permits: Plans, applicants, permits and inspections of a city."),
    ("Podcast production planner: Shows, episodes, guests and sponsors.",
     "Newsletter publishing: Issues, subscribers, sponsors and articles."),
    ("Ski rental shop: Skis, boots, rentals and deposits.",
     "Bicycle rental shop: Bicycles, helmets, rentals and deposits."),
    ("Wedding planning: Couples, venues, vendors and budgets.",
     "Conference planning: Speakers, rooms, sessions and attendees."),
]  # fmt: skip
RENAMED = [
    ("Marina berth management", "Marina berth management system"),
    ("Community theatre box office", "Box office of a community theatre"),
    ("Veterinary clinic appointments", "Vet clinic appointment book"),
    ("Tool lending library", "Tool lending library loans"),
    ("School bus routing", "School bus route planning"),
    ("Blood bank inventory", "Blood bank stock management"),
]


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def likenesses(embedder: Embedder, pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [cosine(*vectors(embedder, pair)) for pair in pairs]


def test_the_default_bound_finds_paraphrases_and_no_neighbours(wordllama: WordLlamaEmbedder) -> None:
    alike, apart = likenesses(wordllama, PARAPHRASES), likenesses(wordllama, NEIGHBOURS)
    assert sum(found >= wordllama.same_from for found in alike) == 6
    assert (round(min(alike), 2), round(max(alike), 2), round(max(apart), 2)) == (0.66, 0.83, 0.64)
    assert max(alike) < PAPER_SAME_FROM


def test_the_default_bound_holds_for_names_without_outlines(wordllama: WordLlamaEmbedder) -> None:
    names = [(one.split(":")[0], other.split(":")[0]) for one, other in NEIGHBOURS]
    alike, apart = likenesses(wordllama, RENAMED), likenesses(wordllama, names)
    assert (round(min(alike), 2), round(max(alike), 2), round(max(apart), 2)) == (0.75, 0.94, 0.62)


def test_no_two_domains_of_the_package_are_alike(wordllama: WordLlamaEmbedder) -> None:
    found = vectors(wordllama, [seed.name for seed in default_seeds()])
    nearest = max(cosine(a, b) for i, a in enumerate(found) for b in found[:i])
    assert round(nearest, 2) == 0.58


def test_vectors_are_of_length_one_and_the_same_in_any_company(wordllama: WordLlamaEmbedder) -> None:
    texts = ["Tool lending library", "Blood bank inventory: Donors, donations and units with a very long outline"]
    together = wordllama.embed(texts)
    assert [math.isclose(cosine(v, v), 1.0, abs_tol=1e-9) for v in together] == [True, True]
    assert together == [wordllama.embed([text])[0] for text in texts]


def test_an_empty_text_is_like_nothing(wordllama: WordLlamaEmbedder) -> None:
    empty, other = vectors(wordllama, ["", "Tool lending library"])
    assert cosine(empty, other) == 0.0


def test_the_default_embedder_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("there is no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert len(WordLlamaEmbedder().embed(["Bakery pre-orders"])[0]) == 256


def test_the_embedder_leaves_the_root_logger_as_it_was() -> None:
    code = (
        "import logging\n"
        "from awm_hub.synthesis.embedding import WordLlamaEmbedder\n"
        "WordLlamaEmbedder().embed(['x'])\n"
        "print(logging.getLogger().handlers, logging.getLogger().level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"[] {logging.WARNING}\n"


def test_without_the_package_the_extra_is_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    embedder = embedder_from("wordllama")
    with pytest.raises(UsageError) as caught:
        embedder.embed(["x"])
    assert caught.value.next_step == "pip install 'awm-hub[synthesis]'"


class Letters:
    """Counts the letters a and b."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[3.0 * text.count("a"), 3.0 * text.count("b")] for text in texts]


class Strict(Letters):
    same_from = 0.99


class Forgetful(Letters):
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return super().embed(texts)[1:]


class Boundless(Letters):
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[math.inf, 0.0] for _ in texts]


class Picky:
    def __init__(self, size: int) -> None:
        self.size = size


def test_an_embedder_of_ones_own_is_named_by_module_and_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    embedder = embedder_from("mine:Letters")
    assert embedder.name == "letters"
    assert vectors(embedder, ["aa", "ab"]) == [[1.0, 0.0], pytest.approx([0.5**0.5, 0.5**0.5])]


def test_an_embedder_may_state_its_bound_and_the_paper_s_holds_otherwise() -> None:
    assert (same_from(Strict()), same_from(Letters()), same_from(WordLlamaEmbedder())) == (0.99, 0.85, 0.7)


@pytest.mark.parametrize("name", ["glove", "mine:", ":Letters", "nowhere_at_all:X", "mine:Nothing", "mine:Picky"])
def test_an_unknown_embedder_is_a_usage_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    with pytest.raises(UsageError) as caught:
        embedder_from(name)
    assert caught.value.next_step


def test_a_class_that_is_no_embedder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", sys.modules["collections"])
    with pytest.raises(UsageError, match="mine:Counter is no embedder"):
        embedder_from("mine:Counter")


@pytest.mark.parametrize(("embedder", "said"), [(Forgetful(), "no vector of one length"), (Boundless(), "finite")])
def test_vectors_that_cannot_be_compared_are_refused(embedder: Embedder, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        vectors(embedder, ["a", "b"])
