"""Episodes: a task each, instances launched ahead, and nothing left behind."""

import asyncio
import gc
import inspect
import subprocess
import sys
from typing import Any

import pytest
from training.scripted import row_of

import awm_hub
from awm_hub.errors import DataError, UnknownNameError, UsageError
from awm_hub.runtime import sync
from awm_hub.training.episodes import Episode, Episodes, Place
from training import tiny

PLACE = Place("public_library_1", "public_library_1/owed_by_ingeborg", 0)


def until_launched(episodes: Episodes, count: int) -> None:
    """Wait until that many instances are live."""

    async def look() -> None:
        async with asyncio.timeout(30):
            while episodes.live_instances != count:
                await asyncio.sleep(0.01)

    sync.run(look)


def test_an_episode_has_no_method_that_a_trainer_would_take_for_a_tool() -> None:
    public = {name for name, _ in inspect.getmembers(Episode, inspect.isfunction) if not name.startswith("_")}
    assert public == {"reset"}


def test_a_reset_episode_is_of_its_rows_task(episodes: Episodes) -> None:
    episode = episodes.factory()()
    assert episode.reset(**row_of(seed=7, anything="else")) is None
    assert episode.place == Place("public_library_1", "public_library_1/owed_by_ingeborg", 7)
    assert episode.task.slug == "owed_by_ingeborg"
    assert (episode.trajectory, episode.turns, episode.leader) == (None, [], episode)
    assert episodes.live_instances == 0


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"prompt": []}, UsageError, "no environment_id and task_id"),
        ({"environment_id": "nowhere", "task_id": "nowhere/t"}, UnknownNameError, "nowhere"),
        ({"environment_id": "public_library_1", "task_id": "public_library_1/t"}, UnknownNameError, "no task named"),
        (row_of(environment_hash="0" * 64), DataError, "another version of public_library_1"),
    ],
)
def test_a_row_that_names_no_task_of_the_environments_is_refused(
    row: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Episodes().factory()().reset(**row)


def test_prepared_instances_are_taken_first(episodes: Episodes) -> None:
    episodes.prepare([row_of(), row_of()])
    until_launched(episodes, 2)
    taken = [sync.run(episodes.take, PLACE) for _ in range(3)]
    assert (episodes.launched_ahead, episodes.launched_on_demand) == (2, 1)
    assert len({id(instance) for instance in taken}) == 3


def test_preparing_other_rows_frees_what_was_not_taken(episodes: Episodes) -> None:
    episodes.prepare([row_of()] * 3)
    until_launched(episodes, 3)
    episodes.prepare([row_of("overdue_at_millbrook")])
    until_launched(episodes, 1)
    sync.run(episodes.take, PLACE)
    assert (episodes.launched_ahead, episodes.launched_on_demand) == (0, 1)


def test_coming_rows_are_launched_once_the_batch_under_way_has_ended(episodes: Episodes) -> None:
    first, second = [row_of()] * 2, [row_of("overdue_at_millbrook")] * 2
    episodes.coming(first)
    assert episodes.live_instances == 0
    episodes.begin([PLACE, PLACE])
    under_way = [sync.run(episodes.take, PLACE) for _ in range(2)]
    episodes.coming(second)
    episodes.coming(first)
    episodes.coming(second)
    assert episodes.live_instances == 2
    for instance in under_way:
        sync.run(episodes.give_back, instance)
    episodes.prepare_coming()
    until_launched(episodes, 2)
    episodes.coming(second)
    episodes.begin([Place(PLACE.environment_id, "public_library_1/overdue_at_millbrook", 0)] * 2)
    sync.run(episodes.take, Place(PLACE.environment_id, "public_library_1/overdue_at_millbrook", 0))
    assert (episodes.launched_ahead, episodes.launched_on_demand) == (1, 2)


def test_closing_frees_everything_and_using_it_again_opens_it(episodes: Episodes) -> None:
    taken = sync.run(episodes.take, PLACE)
    episodes.prepare([row_of()])
    until_launched(episodes, 2)
    episodes.close()
    episodes.close()
    assert taken.is_closed
    assert episodes.live_instances == 0
    assert not sync.run(episodes.take, PLACE).is_closed


def test_a_pool_of_ones_own_is_used_and_left_open() -> None:
    async def made() -> Any:
        return awm_hub.aio.LocalPool(most_instances=8)

    pool = sync.run(made)
    found = Episodes({"public_library_1": tiny.library()}, pool=pool)
    instance = sync.run(found.take, PLACE)
    assert pool.usage.instances == 1
    found.close()
    assert instance.is_closed
    assert pool.usage.instances == 0
    sync.run(pool.close)


def test_episodes_that_nobody_holds_any_more_free_their_instances() -> None:
    found = Episodes({"public_library_1": tiny.library()})
    instance = sync.run(found.take, PLACE)
    del found
    gc.collect()
    assert instance.is_closed


def test_episodes_that_are_collected_on_the_background_loop_free_their_instances_there() -> None:
    held = [Episodes({"public_library_1": tiny.library()})]
    instance = sync.run(held[0].take, PLACE)

    async def collect() -> None:
        held.clear()
        gc.collect()
        async with asyncio.timeout(30):
            while not instance.is_closed:
                await asyncio.sleep(0.01)

    sync.run(collect)


def test_a_program_that_is_interrupted_ends_with_its_instances_freed() -> None:
    code = (
        "import atexit\n"
        "from awm_hub.training.episodes import Episodes, Place\n"
        "from awm_hub.runtime import sync\n"
        "atexit.register(lambda: print(instance.is_closed, episodes.live_instances))\n"
        "episodes = Episodes()\n"
        "instance = sync.run(episodes.take, Place('public_library_1', 'public_library_1/owed_by_ingeborg', 0))\n"
        "print(instance.is_closed, episodes.live_instances)\n"
        "raise KeyboardInterrupt\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False 1\nTrue 0\n"
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


def test_importing_the_package_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "import awm_hub.training as training\n"
        "training.Episodes, training.WindowedRollout, training.HybridReward, training.TrajectoryLog, training.rows_of\n"
        "training.history_aware, training.ChatTokens\n"
        "print(sorted({'torch', 'trl', 'transformers', 'datasets', 'accelerate'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
