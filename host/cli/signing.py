"""The publisher's and the operator's verbs for bundles: keygen, pack, sign, verify, inspect.

Rules
* A verb raises SealhostError and prints nothing about it; `main` prints the one line and chooses the exit code.
  With `--json` it also prints `{"error": {…}}` to standard output, for the program that reads there.
* Facts go to standard output, progress to standard error, and only when a person is looking.
* The signer is imported by the verbs that sign, so that `serve` never holds it.

Example:
    verify(Path("smollm2"), keys=Path("keys"), json=True)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from ...signing import inspect as inspect_bundle
from .facts import answering, print_facts, say
from .options import Json, Keys, PassphraseFd, StateFolder  # noqa: TC001 — cyclopts reads annotations at run time
from .passphrase import read_passphrase
from .progress import progress_bar
from .terminal import note
from .verifying import VerifyRequest, verify_bundle

app = App(name="signing", help="Make, sign, verify and look into bundles.")


@app.command
def keygen(
    name: str,
    /,
    *,
    out: Path = Path(),
    passphrase_fd: PassphraseFd = None,
    no_passphrase: Annotated[bool, Parameter(negative="", help="Leave the private key unencrypted.")] = False,
    json: Json = False,
) -> None:
    """Make a key pair: NAME.key (encrypted, to keep secret) and NAME.pub (to hand out).

    Args:
        name: File name of the pair, without suffix.
        out: Folder to write to.
        passphrase_fd: Descriptor with the passphrase; else SEALHOST_PASSPHRASE, else you are asked.
        no_passphrase: Leave the private key unencrypted.
        json: Print one JSON object.
    """
    from ...signing.keys import new_key_pair, write_key_pair  # noqa: PLC0415 — only verbs that handle private keys load this

    with answering(as_json=json):
        private, public = new_key_pair(out, name)  # before anybody is asked (clause 6.14)
        passphrase = None
        if not no_passphrase:
            passphrase = read_passphrase(private.name, descriptor=passphrase_fd, confirm=True)
        key = write_key_pair(out, name, passphrase=passphrase)
        facts = {
            "key_id": key.key_id,
            "private_key": str(private),
            "public_key": str(public),
            "encrypted": passphrase is not None,
        }
        print_facts(facts, as_json=json)
        if not json:
            say(f"keep {private.name} secret; operators who trust you run: sealhost trust add {public.name}")


@app.command
def pack(  # noqa: PLR0913 — one parameter for each option of the command line
    model: Path,
    /,
    *,
    out: Path,
    name: str,
    version: int,
    tokenizer: str | None = None,
    sampler: Annotated[list[str] | None, Parameter(negative="")] = None,
    template: Path | None = None,
    document: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Json = False,
) -> None:
    """Make a bundle, ready to be signed, from a GGUF file and plugins.

    Args:
        model: The GGUF file.
        out: Directory to make; it must not exist.
        name: The bundle's name.
        version: At least 1, higher for each release.
        tokenizer: A reference plugin's name, or the path of a .wasm with a .toml beside it. [default: the reference
            plugin for the file's tokenizer model]
        sampler: The same for samplers; may be given several times, the first is the default. `response_format`
            needs one named json. [default: standard and json]
        template: Chat template to use instead of the GGUF's own.
        document: Licence, model card or the like to carry along; may be given several times.
        json: Print one JSON object.
    """
    from ...signing import pack as signing_pack  # noqa: PLC0415 — only verbs that publish load this
    from . import packing  # noqa: PLC0415 — see above

    with answering(as_json=json):
        packing.check_release(name, version)
        own = packing.facts_of(model)
        plugins = [
            packing.find_plugin(own.tokenizer if tokenizer is None else tokenizer, "tokenizer"),
            *(packing.find_plugin(one, "sampler") for one in sampler or packing.SAMPLERS),
        ]
        with progress_bar("packing") as progress:
            packed = signing_pack.pack(
                out,
                name=name,
                version=version,
                model=model,
                plugins=plugins,
                template=packing.template_for(own.template, template),
                documents=[packing.read_document(path) for path in document or []],
                progress=progress,
            )
        facts = {
            "bundle": str(out),
            "name": packed.manifest.name,
            "version": packed.manifest.version,
            "digest": packed.digest,
            "template": packed.manifest.template,
            "files": len(packed.manifest.files),
            "bytes": packed.bytes,
        }
        if own.warning is not None:
            note(f"warning: this version of sealhost cannot load this model: {own.warning}")
            facts |= {"warning": own.warning} if json else {}
        print_facts(facts, as_json=json)
        if not json:
            say(f"next: sealhost sign {out} --key NAME.key")


@app.command
def sign(
    bundle: Path,
    /,
    *,
    key: Path,
    oms_key: Path | None = None,
    passphrase_fd: PassphraseFd = None,
    json: Json = False,
) -> None:
    """Check a bundle as a verifier would, then add your signature.

    Args:
        bundle: The bundle's directory.
        key: Private key, as keygen wrote it.
        oms_key: Private key on P-256, P-384 or P-521: also write model.sig for verifiers of OpenSSF Model Signing.
        passphrase_fd: Descriptor with the passphrase of --key; else SEALHOST_PASSPHRASE, else you are asked.
        json: Print one JSON object.
    """
    from ...signing.keys import (  # noqa: PLC0415 — only verbs that handle private keys load this
        is_encrypted,
        parse_private_key,
        read_private_key_file,
    )
    from ...signing.oms import parse_oms_key  # noqa: PLC0415 — see above
    from ...signing.sign import sign_bundle  # noqa: PLC0415 — see above
    from ...signing.source import Source  # noqa: PLC0415 — see above

    with answering(as_json=json):
        data = read_private_key_file(key)
        other_data = b"" if oms_key is None else read_private_key_file(oms_key)
        Source(bundle).close()  # before anybody is asked (clause 6.14)
        passphrase = None
        if is_encrypted(data):
            passphrase = read_passphrase(key.name, descriptor=passphrase_fd, confirm=False)
        private_key = parse_private_key(data, passphrase, key.name)
        other_key = None
        if oms_key is not None:
            encrypted = is_encrypted(other_data)
            passphrase = read_passphrase(oms_key.name, descriptor=None, confirm=False) if encrypted else None
            other_key = parse_oms_key(other_data, passphrase, oms_key.name)
        with progress_bar("checking") as progress:
            signed = sign_bundle(bundle, private_key, oms_key=other_key, progress=progress)
        facts = {"bundle": str(bundle), "signature": signed.path, "key_id": signed.key_id, "digest": signed.digest}
        facts |= {"model_signature": "model.sig"} if other_key is not None else {}
        print_facts(facts, as_json=json)


@app.command
def verify(
    bundle: Path,
    /,
    *,
    keys: Keys = None,
    state: StateFolder = None,
    full: Annotated[bool, Parameter(negative="", help="Also check the weights' flat digest.")] = False,
    json: Json = False,
) -> None:
    """Check a bundle's signature and every byte of it.

    Args:
        bundle: The bundle's directory.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions, which is read and not changed; without it your own.
        full: Also check the weights' flat digest, which takes one core some seconds per 10 GB.
        json: Print one JSON object.
    """
    verify_bundle(VerifyRequest(bundle, keys, state, full, json))


@app.command
def inspect(bundle: Path, /, *, json: Json = False) -> None:
    """Show what a bundle claims about itself. Nothing of it is VERIFIED.

    Args:
        bundle: The bundle's directory.
        json: Print one JSON object.
    """
    with answering(as_json=json):
        facts = inspect_bundle(bundle)
        if json:
            print_facts(facts, as_json=True)
            return
        manifest = facts["manifest"]
        say("UNVERIFIED: this is what the bundle claims, nobody has checked it; use `sealhost verify`")
        rows: dict[str, Any] = {field: manifest[field] for field in ("kind", "name", "version", "template")}
        rows |= {"digest": facts["digest"], "claimed signers": facts["claimed_signers"] or "none"}
        rows |= {"plugins": manifest["plugins"]}
        print_facts(rows, as_json=False)
        for entry in manifest["files"]:
            say(f"  {entry['role']:<9} {entry['size']:>14,} bytes  {entry['path']}")
