"""An authority of a test's own, and files for --job-key-file that it has signed."""

import datetime
import subprocess
from pathlib import Path


def openssl(*words, text=None):
    done = subprocess.run(["openssl", *map(str, words)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Authority:
    def __init__(self, folder, name="authority"):
        self.folder = Path(folder) / name
        self.folder.mkdir()
        self.key, self.certificate = self.folder / "ca.key", self.folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.certificate, "-days", 30, "-subj", f"/CN={name}")

    def sign(self, name, *, days=(-1, 30), usage="serverAuth,clientAuth"):
        """(certificate, private key) of `name` as PEM; `days` from now that it begins and ends to hold."""
        key, request, made, extension = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem", "ext"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extension.write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage={usage}\n")
        begin, end = ((datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=day)).strftime("%Y%m%d%H%M%SZ") for day in days)
        (self.folder / "index.txt").touch()
        (self.folder / "ca.conf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\nnew_certs_dir={self.folder}\ndatabase={self.folder}/index.txt\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n"
        )
        openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.conf", "-cert", self.certificate, "-keyfile", self.key, "-startdate", begin, "-enddate", end, "-extfile", extension, "-in", request, "-out", made)
        return made.read_text(), key.read_text()

    def file(self, name, *, peers=None, authority=None, **how):
        """A file for --job-key-file."""
        certificate, key = self.sign(name, **how)
        path = self.folder / f"{name}-{len(list(self.folder.iterdir()))}.job.pem"
        line = f"peers: {peers}\n" if peers else ""
        path.write_text(line + certificate + key + (authority or self).certificate.read_text())
        path.chmod(0o600)
        return path
