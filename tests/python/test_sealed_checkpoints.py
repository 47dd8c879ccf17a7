"""Jobs with --checkpoint-key: who may write into the directory and has not the key changes nothing that a job goes on from."""

import json
import shutil

import pytest
from test_checkpoint import copied, flip, train, undisturbed  # noqa: F401 (a fixture)
from test_going_on import going_on
from test_tls import make_key


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return make_key(folder, "one.key"), make_key(folder, "other.key")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, keys):
    """Checkpoints of iterations 10, 20 and 25; copy them before changing them."""
    directory = tmp_path_factory.mktemp("sealed") / "c"
    train(checkpoint=directory, checkpoint_every=10, iterations=25, checkpoint_key=keys[0])
    return directory


def refused(directory, key, *words):
    before = sorted(path.name for path in directory.iterdir())
    _, errors = train("--resume", checkpoint=directory, checkpoint_every=10, iterations=47, checkpoint_key=key, code=2)
    assert errors.count("\n") == 1 and all(word in errors for word in words), errors
    assert sorted(path.name for path in directory.iterdir()) == before, "nothing is moved or removed"


def test_a_sealed_job_goes_on_to_the_bit_and_its_key_stands_in_no_file(tmp_path, sealed, keys, undisturbed):  # noqa: F811
    directory = copied(sealed, tmp_path)
    report, errors = train("--resume", checkpoint=directory, checkpoint_every=10, iterations=47, checkpoint_key=keys[0])
    assert report["parameters_hash"] == undisturbed(iterations=47) and report["iterations"] == 22 and "warning" not in errors
    secret = keys[0].read_bytes()
    for path in directory.rglob("*.*"):
        assert not any(form in path.read_bytes() for form in (secret, secret.hex().encode())), path
    assert "hmac" in json.loads((directory / "00000047/manifest.json").read_text())


def test_the_key_is_named_anew_and_all_else_comes_from_the_sealed_manifest(tmp_path, sealed, keys, undisturbed):  # noqa: F811
    (tmp_path / "b").mkdir()
    directory = copied(sealed, tmp_path)
    report, told = going_on(directory, "--iterations", 47, "--checkpoint-key", keys[0])
    assert report["parameters_hash"] == undisturbed(iterations=47) and "; not" not in told
    manifest = directory / "00000047/manifest.json"
    flip(manifest, manifest.read_text().index('"seed": "1"') + 9)
    _, errors = going_on(directory, "--iterations", 60, "--checkpoint-key", keys[0], code=2)
    assert "00000047/manifest.json" in errors and errors.count("\n") == 1, errors
    _, told = going_on(copied(sealed, tmp_path / "b"), "--iterations", 47)
    assert f"; not --checkpoint-key {keys[0]}" in told, "who may write there could name a key of his own"


def test_buffers_of_workers_are_sealed_too(tmp_path, keys):
    task = {"model": "resnet-20", "dataset": "synthetic:3x32x32,samples=64,test=20", "mini_batch": 2, "checkpoint_key": keys[0]}
    whole = train(**task, checkpoint=tmp_path / "a", iterations=3)[0]["parameters_hash"]
    train(**task, checkpoint=tmp_path / "b", iterations=2)
    assert train("--resume", **task, checkpoint=tmp_path / "b", iterations=3)[0]["parameters_hash"] == whole
    flip(tmp_path / "b/00000003/worker-1.bin", 200)
    _, errors = train("--resume", **task, checkpoint=tmp_path / "b", iterations=4, code=2)
    assert all(word in errors for word in ("worker-1.bin", "--checkpoint-key")), errors


def test_another_key_and_checkpoints_without_a_seal_are_refused_by_name(tmp_path, sealed, keys):
    directory = copied(sealed, tmp_path)
    refused(directory, keys[1], "00000025/manifest.json", "does not match its seal", "move ")
    train(checkpoint=tmp_path / "clear", iterations=5)
    refused(tmp_path / "clear", keys[0], "00000005/manifest.json", "is not sealed")


@pytest.mark.parametrize("file", ["server-0.bin", "worker-1.bin", "manifest.json"])
def test_files_of_another_checkpoint_in_place_of_the_newest_one_s_are_refused_by_name(tmp_path, sealed, keys, file):
    directory = copied(sealed, tmp_path)
    shutil.copy(directory / "00000020" / file, directory / "00000025" / file)
    refused(directory, keys[0], f"00000025/{file}")


def test_an_older_checkpoint_under_the_newest_one_s_name_is_refused(tmp_path, sealed, keys):
    directory = copied(sealed, tmp_path)
    shutil.rmtree(directory / "00000025")
    (directory / "00000010").rename(directory / "00000025")
    refused(directory, keys[0], "00000025", "belongs to iteration 10")


def test_a_link_to_another_part_and_a_changed_byte_are_refused(tmp_path, sealed, keys):
    directory = copied(sealed, tmp_path)
    (directory / "00000025/server-1.bin").unlink()
    (directory / "00000025/server-1.bin").symlink_to(directory / "00000020/server-1.bin")
    refused(directory, keys[0], "00000025/server-1.bin")
    (tmp_path / "other").mkdir()
    other = copied(sealed, tmp_path / "other")
    flip(other / "00000025/server-0.bin", 4000)
    refused(other, keys[0], "00000025/server-0.bin")


def test_a_key_that_is_none_is_refused_before_anything_is_written(tmp_path, keys):
    readable = tmp_path / "readable.key"
    readable.write_bytes(keys[0].read_bytes())
    readable.chmod(0o644)
    for key, words in ((readable, "chmod 600"), (tmp_path / "missing", "paceline key new")):
        _, errors = train(checkpoint=tmp_path / "c", iterations=5, checkpoint_key=key, code=2)
        assert "--checkpoint-key" in errors and str(key) in errors and words in errors, errors
        assert not (tmp_path / "c").exists()
    _, errors = train(checkpoint_key=keys[0], iterations=5, code=2)
    assert "--checkpoint-key" in errors and "--checkpoint DIR" in errors
