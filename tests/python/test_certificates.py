"""Jobs whose processes have certificates of their own (docs/security.md): who is a member, and who is refused by name."""

import pytest
from certificates import Authority
from jobs import Coordinator, train
from test_outsiders import expect_bits, task  # noqa: F401 (a fixture)
from test_strangers import Together, member
from test_tls import make_key, run


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "other")


def test_each_process_has_a_certificate_of_its_own(task, authority):
    files = [authority.file(f"n{i}.gpu.example", peers="n0.gpu.example, *.gpu.example") for i in range(4)]
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1, "--job-key-file", files[0]))
        members = [together.add(member(coordinator, "server", *task, "--iterations", 10, "--job-key-file", files[1]))]
        members += [together.add(member(coordinator, "worker", *task, "--iterations", 10, "--job-key-file", file, "--security", "tls")) for file in files[2:]]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert coordinator.report()["security"] == "tls"
        expect_bits(coordinator.report(), task, 2)


def test_a_whole_job_on_one_machine_hands_it_on(task, authority):
    report = train(*task, "--iterations", 10, "--workers", 2, "--job-key-file", authority.file("here.example"))
    assert report["security"] == "tls"
    expect_bits(report, task, 2)


WRONG = {  # what a joining worker has: (its file, what it says, what the coordinator says)
    "another authority's": (lambda ours, other, folder: other.file("w.example"), "certificate of c.example does not hold: ", None),
    "a stranger to us, whom we know": (lambda ours, other, folder: other.file("w.example", authority=ours), None, None),
    "a name that is not admitted": (lambda ours, other, folder: ours.file("w.elsewhere"), "it refused the certificate of w.elsewhere", "of w.elsewhere is of none of the peers"),
    "a key": (lambda ours, other, folder: make_key(folder, "w.key"), "it shows a certificate; this process has a job key", None),
    "nothing": (None, "speaks TLS", "talks in the clear"),
}


@pytest.mark.parametrize("what", WRONG)
def test_who_has_another_one_is_refused_in_words_and_harms_nobody(task, authority, other, tmp_path, what):
    file, said, heard = WRONG[what]
    good = authority.file("c.example", peers="*.example")
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, "--job-key-file", good))
        options = ("--job-key-file", file(authority, other, tmp_path)) if file else ()
        with member(coordinator, "worker", *task, "--iterations", 10, *options) as process:
            assert process.finish() == 2, process.err
            assert said is None or said in process.the_error(), process.err
        members = [together.add(member(coordinator, role, *task, "--iterations", 10, "--job-key-file", good)) for role in ("server", "worker")]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert heard is None or heard in coordinator.err, coordinator.err
        expect_bits(coordinator.report(), task, 1)


def without(text, what):
    begin = text.index(f"-----BEGIN {what}")
    end = text.index(f"-----END {what}", begin)
    return text[:begin] + text[text.index("\n", end) + 1 :]


def last_without(text, what):
    begin = text.rindex(f"-----BEGIN {what}")
    return text[:begin] + text[text.index("\n", text.rindex(f"-----END {what}")) + 1 :]


BROKEN = {
    "expired": (dict(days=(-10, -1)), None, "certificate of b.example does not hold: certificate has expired"),
    "not yet": (dict(days=(5, 10)), None, "does not hold: certificate is not yet valid"),
    "for one side": (dict(usage="serverAuth"), None, "does not hold: unsuitable certificate purpose"),
    "no private key": ({}, lambda text: without(text, "PRIVATE KEY"), "no private key that can be read without a password"),
    "no certificate": ({}, lambda text: last_without(last_without(text, "CERTIFICATE"), "CERTIFICATE"), "it has no certificate"),
    "no authority": ({}, lambda text: last_without(text, "CERTIFICATE"), "no certificate of the authority behind that of b.example"),
    "peers that are nobody": ({}, lambda text: "peers: , \n" + text, "line of peers names nobody"),
    "cut": ({}, lambda text: text[:300], "it has no certificate"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_cannot_work_is_refused_before_anything_begins(authority, what):
    how, change, said = BROKEN[what]
    file = authority.file("b.example", **how)
    if change:
        file.write_text(change(file.read_text()))
    code, err = run("coordinator", "--job-key-file", file)
    assert code == 2 and said in err and str(file) in err, err


def test_another_ones_private_key_and_an_authority_that_has_not_signed(authority, other):
    file, foreign = authority.file("b.example"), other.file("b.example", authority=authority)
    mine, theirs = file.read_text(), foreign.read_text()
    swapped = mine[: mine.index("-----BEGIN PRIVATE")] + theirs[theirs.index("-----BEGIN PRIVATE") :]
    code, err = run("coordinator", "--job-key-file", foreign)
    assert code == 2 and "does not hold: unable to get local issuer certificate" in err, err
    file.write_text(swapped)
    code, err = run("coordinator", "--job-key-file", file)
    assert code == 2 and "its private key is not that of its first certificate, of b.example" in err, err


def test_it_is_no_key_that_all_share_and_seals_nothing(task, authority, tmp_path):
    file = authority.file("b.example")
    code, err = run("coordinator", "--job-key-file", file, "--security", "psk")
    assert code == 2 and "the certificate of b.example; say --security tls" in err, err
    code, err = run("train", *task, "--iterations", 5, "--workers", 1, "--checkpoint", tmp_path / "c", "--checkpoint-key", file)
    assert code == 2 and "a certificate seals nothing" in err, err
    file.chmod(0o644)
    code, err = run("coordinator", "--job-key-file", file)
    assert code == 2 and "has mode 0644: others may use it" in err, err
