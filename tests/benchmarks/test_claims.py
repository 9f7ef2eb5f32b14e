"""The command that records an experiment of chapter 15."""

import json

import claims as command


def test_what_is_finished_is_not_trained_again(tmp_path):
    jobs = [{"rate": 0.1, "seed": 1}, {"rate": 0.1, "seed": 2}]
    lines = [
        {"job": command.key_of(job), "seconds": 1.0, "result": {"right": job["seed"]}}
        for job in jobs
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "heads.jsonl").write_text(text + '{"job": "kil')  # while this line was written
    trainings = command.Trainings("heads", tmp_path, 1)
    assert trainings.results(jobs[::-1]) == [{"right": 2}, {"right": 1}]
    assert len(trainings.found) == 2
