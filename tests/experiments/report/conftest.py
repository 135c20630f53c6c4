import pytest

HEAD = "frames,eval_mean,eval_median,eval_std,episodes,human_normalised"


def save_result(folder, name, *rows, settings='{"frames": 400000}', more=""):
    """Writes a result with rows of frames and score; `more` are further columns."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    columns, _, values = more.partition(":")
    lines = [f"{frames},{score},0,0,10,{values and ',' + values}" for frames, score in rows]
    head = HEAD + (f",{columns}" if columns else "")
    path.write_text(f"# commit abc: python x\n# settings: {settings}\n{head}\n" + "\n".join(lines))


# Pong: 0% is -20.7 points, 100% is 14.6. Boxing: 0.1 and 12.1.
@pytest.fixture
def results(tmp_path):
    """Two variants on Pong and Boxing; one more run of Pong, one game and one end missing."""
    folder = tmp_path / "results"
    save_result(folder, "nec/pong/1.csv", (200_016, -20.7), (400_008, -3.05))  # 0, 50%
    save_result(folder, "nec/pong/2.csv", (200_020, -20.7), (400_100, 14.6))  # 0, 100%
    save_result(folder, "nec/boxing/1.csv", (200_000, 0.1), (400_000, 2.5))  # 0, 20%
    save_result(folder, "mfec/pong/1.csv", (200_016, -20.7), (400_008, -17.17))  # 0, 10%
    save_result(folder, "mfec/boxing/1.csv", (400_000, 2.5))  # 20%
    save_result(folder, "dqn/pong/1.csv", (200_000, -20.7))  # unfinished
    return folder


@pytest.fixture
def gymnasium_results(tmp_path):
    """Two runs of a task that has no human score."""
    folder = tmp_path / "results"
    timed = "scores,wall_seconds,frames_per_second:9 10 11,61.5,812.5"
    for seed in (1, 2):
        save_result(
            folder,
            f"nec/cartpole-v1/{seed}.csv",
            (500, 9.5),
            (1000, 10.0),
            settings='{"frames": 1000}',
            more=timed,
        )
    return folder
