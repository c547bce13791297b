"""Compiled code on disk: private, whole, and keyed by what it depends on."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from sealhost.kernels.cpu import CpuBackend, Isa, beside, cache, detect_isa, supported
from sealhost.kernels.cpu import isa as choice
from sealhost.kernels.cpu import turn as turns
from sealhost.kernels.cpu.cache import cache_directory, cache_key, load_kernels
from sealhost.kernels.cpu.objects import Flow
from sealhost.kernels.cpu.turn import turn
from sealhost.kernels.errors import KernelError
from sealhost.kernels.kv_type import KvType


@pytest.fixture
def counted(monkeypatch, cpu):
    """The compiler replaced by one that hands out what is in the cache already, and counts."""
    from sealhost.kernels.cpu import compiler

    folder, key = cache_directory(), cache_key()
    flow = cache._read(folder / f"{key}-flow.o")
    products = cache._read(folder / f"{key}-{cpu.isa}.o")
    attention = cache._read(folder / f"{key}-kv-{cpu.kv_type}.o")
    hashing = cache._read(folder / f"{key}-sha256.o")
    calls = []
    monkeypatch.setattr(compiler, "compile_flow", lambda: calls.append("flow") or flow)
    monkeypatch.setattr(compiler, "compile_products", lambda isa: calls.append(isa) or products.objects[0])
    monkeypatch.setattr(compiler, "compile_attention", lambda kv_type: calls.append(kv_type) or attention.objects[0])
    monkeypatch.setattr(compiler, "compile_hashing", lambda: calls.append("sha256") or hashing.objects[0])
    monkeypatch.setattr(beside, "available_threads", lambda: 1)
    return calls


@pytest.fixture
def made(cpu):
    """The files that the cache of this run has, by name."""
    return {path.name: path.read_bytes() for path in cache_directory().glob(f"{cache_key()}-*.o")}


def test_the_cache_follows_xdg_and_its_own_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("SEALHOST_KERNEL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "sealhost" / "kernels"
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"


def test_no_code_comes_from_the_folder_that_a_verb_is_called_in(monkeypatch):
    monkeypatch.delenv("SEALHOST_KERNEL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", "/home/ann")
    assert str(cache_directory()) == "/home/ann/.cache/sealhost/kernels"
    monkeypatch.setenv("HOME", ".")
    assert cache_directory() is None
    monkeypatch.delenv("HOME")
    assert cache_directory() is None


@pytest.mark.parametrize("place", ["file/cache", "file/deep/cache", ""])
def test_a_folder_that_cannot_be_made_costs_a_compilation(monkeypatch, tmp_path, counted, cpu, place):
    (tmp_path / "file").touch()
    monkeypatch.setattr(cache, "cache_directory", lambda: tmp_path / place if place else None)
    told = []
    for _ in range(2):
        load_kernels(cpu.isa, progress=told.append)
    assert counted.count("flow") == 2
    assert told[-1] == "compiled the kernels into /dev/null"
    assert any("cannot be kept" in line for line in told) is bool(place)


@pytest.mark.parametrize("owner", ["others write", "another"])
def test_a_file_that_somebody_else_could_have_written_is_compiled_anew(monkeypatch, tmp_path, counted, cpu, owner):
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    load_kernels(cpu.isa)
    (path,) = (tmp_path / "c").glob("*-flow.o")
    if owner == "others write":
        path.chmod(0o666)
        load_kernels(cpu.isa)
        assert counted.count("flow") == 2
        return
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert cache._read(path) is None


def test_the_first_load_compiles_and_says_so_and_the_second_does_not(monkeypatch, tmp_path, counted, cpu):
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "new" / "cache"))
    told = []
    load_kernels(cpu.isa, progress=told.append)
    assert counted == ["flow", cpu.isa, "float16", "sha256"]
    assert "compiling" in told[0]
    assert stat.S_IMODE((tmp_path / "new" / "cache").stat().st_mode) == 0o700
    load_kernels(cpu.isa, progress=told.append)
    assert counted == ["flow", cpu.isa, "float16", "sha256"]
    assert len(told) == 6


def test_another_type_of_cache_compiles_its_attention_alone(monkeypatch, tmp_path, counted, cpu):
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    load_kernels(cpu.isa, KvType.FLOAT16)
    assert load_kernels(cpu.isa, KvType.INT8).kv_type is KvType.INT8
    assert counted == ["flow", cpu.isa, "float16", "sha256", "int8"]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda _: b"", lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:]])
def test_a_damaged_file_is_compiled_anew(monkeypatch, tmp_path, counted, cpu, damage):
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    load_kernels(cpu.isa)
    (path,) = (tmp_path / "c").glob("*-flow.o")
    path.write_bytes(damage(path.read_bytes()))
    load_kernels(cpu.isa)
    assert counted.count("flow") == 2


@pytest.fixture
def two_cores(monkeypatch, tmp_path, counted, made):
    """A cache in which attention and SHA-256 are missing, on a machine that has a core for the second."""
    monkeypatch.setattr(beside, "available_threads", lambda: 2)
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    (tmp_path / "c").mkdir(mode=0o700)
    for name, content in made.items():
        if "-kv-" not in name and "-sha256" not in name:
            (tmp_path / "c" / name).write_bytes(content)
    return counted


def test_a_second_core_compiles_what_this_process_does_not(tmp_path, two_cores, made, cpu):
    told = []
    load_kernels(cpu.isa, progress=told.append)
    assert two_cores == ["float16"]
    assert told[1:3] == ["compiled attention", "compiled SHA-256"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").glob("*-sha256.o")} == {
        name: content for name, content in made.items() if "-sha256" in name
    }


@pytest.mark.parametrize("executable", ["/bin/false", "/nowhere/python", ""])
def test_a_second_process_that_fails_costs_time_only(monkeypatch, two_cores, cpu, executable):
    monkeypatch.setattr(sys, "executable", executable)
    load_kernels(cpu.isa)
    assert two_cores == ["float16", "sha256"]


def test_no_second_process_compiles_for_a_folder_that_is_not_there(monkeypatch, two_cores, cpu):
    monkeypatch.setattr(cache, "cache_directory", lambda: None)
    monkeypatch.setattr(beside, "_started", lambda _: pytest.fail("expected none"))
    load_kernels(cpu.isa)
    assert two_cores == ["flow", cpu.isa, "float16", "sha256"]


def test_a_compilation_that_is_broken_off_leaves_no_second_process(monkeypatch, two_cores, cpu):
    from sealhost.kernels.cpu import compiler

    def broken_off(_kv_type):
        raise KeyboardInterrupt

    started = []
    monkeypatch.setattr(compiler, "compile_attention", broken_off)
    start = beside._started
    monkeypatch.setattr(beside, "_started", lambda arguments: started.append(start(arguments)) or started[0])
    with pytest.raises(KeyboardInterrupt):
        load_kernels(cpu.isa)
    assert started[0].returncode is not None


def test_the_second_process_imports_nothing_from_the_folder_it_is_started_in(monkeypatch, tmp_path, two_cores, cpu):
    (tmp_path / "llvmlite.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    load_kernels(cpu.isa)
    assert two_cores == ["float16"]


HOLDER = """
import sys, time
from pathlib import Path
from sealhost.kernels.cpu.turn import turn
with turn(Path(sys.argv[1]), print):
    print("has it", flush=True)
    {then}
"""


@pytest.fixture
def holder(monkeypatch, tmp_path):
    """A process that has its turn in a new cache until its input ends."""
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    (tmp_path / "c").mkdir(mode=0o700)
    command = [sys.executable, "-c", HOLDER.format(then="sys.stdin.read()"), tmp_path / "c" / f"{cache_key()}.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "has it\n"
        yield process
        process.kill()


def test_a_process_waits_for_the_one_that_compiles_and_takes_what_it_made(tmp_path, counted, made, cpu, holder):
    told = []

    def tell(text):
        told.append(text)
        for name, content in made.items():
            (tmp_path / "c" / name).write_bytes(content)
        holder.stdin.close()

    load_kernels(cpu.isa, progress=tell)
    assert told == [f"waiting for process {holder.pid} that compiles these kernels"]
    assert not counted


def test_a_process_goes_on_by_itself_when_the_one_that_compiles_is_killed(counted, cpu, holder):
    told = []
    load_kernels(cpu.isa, progress=lambda text: told.append(text) or holder.kill())
    assert told[0].startswith("waiting for process")
    assert counted == ["flow", cpu.isa, "float16", "sha256"]


def test_a_process_waits_no_longer_than_its_patience(monkeypatch, counted, cpu, holder):
    told = []
    monkeypatch.setattr(turns, "PATIENCE_S", 0.0)
    load_kernels(cpu.isa, progress=told.append)
    assert holder.poll() is None
    assert "did not come to an end" in told[1]
    assert counted == ["flow", cpu.isa, "float16", "sha256"]


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_turn(tmp_path):
    told = []
    then = "import os; child = os.fork(); child or time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(then=then) + "print(child, flush=True)", tmp_path / "lock"],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "has it\n"
        child = int(process.stdout.readline())
        process.wait(timeout=120)
        try:
            with turn(tmp_path / "lock", told.append):
                assert not told
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("failing", ["open", "flock"])
def test_where_no_lock_can_be_had_each_process_compiles_for_itself(monkeypatch, tmp_path, counted, cpu, failing):
    def fail(*_):
        raise OSError(errno.ENOLCK, "none here")

    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    if failing == "flock":
        monkeypatch.setattr(turns.fcntl, "flock", fail)
    else:
        (tmp_path / "c").mkdir(mode=0o700)
        (tmp_path / "c" / f"{cache_key()}.lock").symlink_to(tmp_path / "elsewhere")
    load_kernels(cpu.isa)
    assert counted == ["flow", cpu.isa, "float16", "sha256"]
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_others_may_write_to_is_refused(monkeypatch, tmp_path, cpu):
    (tmp_path / "c").mkdir(mode=0o700)
    (tmp_path / "c").chmod(0o777)
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    with pytest.raises(KernelError, match="only you can write"):
        load_kernels(cpu.isa)


def test_a_link_in_place_of_the_folder_is_refused(monkeypatch, tmp_path, cpu):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "c").symlink_to(tmp_path / "real")
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    with pytest.raises(KernelError, match="only you can write"):
        load_kernels(cpu.isa)


def test_a_folder_of_someone_else_is_refused(monkeypatch, tmp_path, cpu):
    (tmp_path / "c").mkdir(mode=0o700)
    monkeypatch.setenv("SEALHOST_KERNEL_CACHE", str(tmp_path / "c"))
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "c").stat().st_uid + 1)
    with pytest.raises(KernelError, match="owner"):
        load_kernels(cpu.isa)


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path):
    cache.write(tmp_path / "missing" / "x.o", Flow("s", (b"code",)))
    assert cache._read(tmp_path / "missing" / "x.o") is None


def test_what_is_written_is_read_back(tmp_path):
    flow = Flow("symbol", (b"one\nline", b"", b"\0two"))
    cache.write(tmp_path / "x.o", flow)
    assert cache._read(tmp_path / "x.o") == flow


def test_the_key_changes_with_the_target(monkeypatch):
    before = cache_key()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert cache_key() != before


def test_the_instruction_set_can_be_forced(monkeypatch):
    for isa in supported():
        monkeypatch.setenv("SEALHOST_CPU_ISA", isa)
        assert detect_isa() is isa
    monkeypatch.delenv("SEALHOST_CPU_ISA")
    assert detect_isa() is supported()[0]


def test_an_instruction_set_that_is_not_there_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("SEALHOST_CPU_ISA", "mmx")
    with pytest.raises(KernelError, match="mmx"):
        detect_isa()
    with pytest.raises(KernelError, match="mmx"):
        CpuBackend(isa="mmx")


@pytest.mark.parametrize("granted", [True, False])
def test_tile_registers_are_used_only_where_the_system_grants_them(monkeypatch, granted):
    features = dict.fromkeys(choice._NEEDS[Isa.AMX], True)
    monkeypatch.setattr(choice.llvm, "get_host_cpu_features", lambda: features)
    monkeypatch.setattr(choice, "tiles_granted", lambda: granted)
    monkeypatch.delenv("SEALHOST_CPU_ISA", raising=False)
    assert detect_isa() is (Isa.AMX if granted else Isa.AVX512VNNI)
    monkeypatch.setenv("SEALHOST_CPU_ISA", "amx")
    if granted:
        assert detect_isa() is Isa.AMX
    else:
        with pytest.raises(KernelError, match="amx"):
            detect_isa()


@pytest.mark.skipif(Isa.AMX not in supported(), reason="needs amx")
def test_where_a_signal_stack_is_too_small_for_tile_registers_the_next_version_is_taken():
    program = (
        "import ctypes\n"
        "stack = ctypes.create_string_buffer(4096)\n"
        "class Stack(ctypes.Structure):\n"
        "    _fields_ = [('at', ctypes.c_void_p), ('flags', ctypes.c_int), ('size', ctypes.c_size_t)]\n"
        "assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(stack), 0, 4096)), None) == 0\n"
        "from sealhost.kernels.cpu import detect_isa\n"
        "print(detect_isa())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SEALHOST_CPU_ISA"}
    answer = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert answer.stdout.decode().strip() == Isa.AVX512VNNI


def test_every_machine_can_run_the_portable_version():
    assert Isa.PORTABLE in supported()


def test_the_backend_says_what_it_runs_on(backends):
    assert [backend.name for backend in backends.values()] == [f"cpu-{isa}" for isa in supported()]
