"""What runs elsewhere: pinned by commit, with no more rights than it needs, and in order."""

import re

import pytest
import yaml

from helpers.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def loaded(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_credentials_do_not_stay(path):
    for line in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
        assert line.startswith("$/") or re.fullmatch(r"[\w/.-]+@[0-9a-f]{40} # v[\d.]+", line)
    for job in loaded(path)["jobs"].values():
        for step in job.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_nothing_may_be_written_but_where_a_job_says_so(path):
    assert set(loaded(path)["permissions"].values()) <= {"read"}


def test_the_book_is_published_only_when_its_tests_have_passed():
    jobs = loaded(ROOT / ".github/workflows/publish.yml")["jobs"]
    assert jobs["test"]["uses"] == "$/.github/workflows/test.yml"
    assert (jobs["build"]["needs"], jobs["deploy"]["needs"]) == ("test", "build")


def test_a_release_is_published_only_when_it_has_been_tried():
    jobs = loaded(ROOT / ".github/workflows/release.yml")["jobs"]
    assert jobs["test"]["uses"] == "$/.github/workflows/test.yml"
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("test", "build")
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    [uv] = [step["run"] for step in jobs["publish"]["steps"] if "uv==" in step.get("run", "")]
    pinned = re.search(r"^uv==(\S+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    assert f"uv=={pinned[1]} publish --trusted-publishing always" in uv


def test_a_weekly_failure_adds_to_the_issue_that_is_open():
    report = loaded(ROOT / ".github/workflows/weekly.yml")["jobs"]["report"]
    assert (report["needs"], report["if"]) == (["versions", "colab", "links"], "failure()")
    script = report["steps"][-1]["run"]
    assert script.index("gh issue list --state open") < script.index("gh issue comment")


@pytest.mark.parametrize("name", ["mistake", "bug"])
def test_forms_for_issues_are_whole(name):
    form = loaded(ROOT / f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in form["body"])
