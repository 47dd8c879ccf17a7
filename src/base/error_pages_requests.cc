// Pages of errors of what was asked, of files and of this machine.
#include "base/error_pages_tables.h"

namespace paceline {
namespace {

constexpr ErrorPage kRequestPages[] = {
    {"bad-request", "The request is wrong",
     "What was asked cannot be done as it stands, and nothing was begun. The sentence names the culprit and what is legal.",
     "Compare it with `paceline help COMMAND all`, or for an option of a job with `paceline options`. In a program the error's "
     "subject names the argument.",
     "Correct what the sentence names, and start again."},
    {"unknown", "A name that does not exist",
     "There is no command, option, model, data set, key or question of this name. Mostly it is a slip of the keyboard: the "
     "sentence suggests the nearest name.",
     "`paceline --help` lists the commands, `paceline options` the options of a job, `paceline models` and `paceline datasets` "
     "what can be trained. `paceline --version` says which release runs: an older one knows fewer names.",
     "Write the name as it is listed."},
    {"illegal", "A value that is not legal",
     "An option or argument has a value outside its range, or of another form. Nothing was begun.",
     "The sentence says what is legal. `paceline options` says it of all options of a job, with their defaults. A value from "
     "`--config FILE` is named with its line, one from the environment with its variable.",
     "Give a value that is legal. Sizes need no unit or one such as `4MiB`, times always one such as `10ms`."},
    {"contradiction", "Settings that exclude each other",
     "Two settings cannot hold together, or one would do nothing in this job: a silent option would train something else than "
     "you meant.",
     "The sentence names both. Settings also come from `--config FILE`, from a plan and from the environment: `paceline help "
     "environment` shows which variables are set.",
     "Leave one of the two out, or choose what the option is for."},
    {"missing", "Something that is needed was not given", "An option, a key or an argument has no default, and was left out.",
     "`paceline help COMMAND` has an example that works when pasted; for a question of `paceline plan` the sentence names the key.",
     "Give what the sentence names."},
    {"no-file", "A path leads to no file",
     "A file or folder is not there, or it is something else than is needed: a folder in the place of a file. Nothing was read or "
     "written.",
     "`ls -ld PATH` for the path in the sentence. A path without `/` in front begins in the folder in which the process was "
     "started, which differs between machines and launchers.",
     "Correct the path, or make the folder. A data set comes with `scripts/setup`, or lies where `PACELINE_DATA` says."},
    {"format", "A file is not what it must be",
     "A data set, table, plan or configuration can be read, but its content is not of the form that is expected here, or it is "
     "damaged or cut off. The sentence says where.",
     "Look at the file at the line or byte in the sentence. For data sets `paceline datasets show NAME` reads all of it, for a "
     "configuration `paceline options --schema` gives editors what is legal.",
     "Fetch or write the file again, or give another one. `paceline datasets pack` makes record files."},
    {"disk-full", "There is no space left",
     "The disk, or this user's share of it, is full, or a file reached its limit. What was to be written is lost; checkpoints that "
     "were complete stay good.",
     "`df -h FOLDER` and `df -i FOLDER` for the folder in the sentence; `ulimit -f`; where there are quotas, `quota`.",
     "Free space, raise the limit, or write elsewhere (`--checkpoint`, `--output`). `paceline train` goes on with `--resume` from "
     "its "
     "last good checkpoint, a script from what it has saved."},
    {"in-use", "Another process is using it",
     "A folder of checkpoints belongs to one job at a time, so that two do not write over each other.",
     "`pgrep -a paceline` shows what runs on this machine. On a shared disk the other job may run on another one.",
     "End the other job, or give `--checkpoint` another folder."},
    {"not-installed", "A part of Paceline is not there",
     "A program or library that this request needs was not built or installed: the trainer, the benchmarks, the laboratory, or a "
     "solver.",
     "`ls` beside the program that ran (`command -v paceline`): `paceline-trainer`, `paceline-bench`, `paceline-lab` and "
     "`paceline-doctor` belong into the same folder.",
     "Build or install what the sentence names, as it says."},
    {"no-rights", "This user must not do that",
     "The system did not permit it. Mostly it is `paceline lab`, which needs network namespaces: containers and hardened systems "
     "forbid them to users.",
     "`unshare --user --net true` fails for the same reason. `sysctl kernel.unprivileged_userns_clone "
     "user.max_user_namespaces` and the container's own rules say who may.",
     "Run it as root, permit namespaces (`docker run --privileged`), or use another machine."},
    {"memory", "There is not enough memory", "Memory, or the number of threads that a user may have, is used up.",
     "`free -h`, `ulimit -a`, and in a container its own limit (`cat /sys/fs/cgroup/memory.max`). `paceline models NAME` says how "
     "large a model is.",
     "Give a smaller `--mini-batch`, fewer workers on this machine, or more memory."},
    {"overloaded", "A limit is reached",
     "A limit that protects this process or this machine is reached: too many connections, operations or requests at once.",
     "The sentence names the limit. `ulimit -a` shows those of the system.",
     "Try again later, ask for less at once, or raise the limit."},
    {"io", "The system refused",
     "The operating system did not do what it was asked: a disk, a descriptor, a right, a program that cannot be started. The "
     "sentence ends with the system's own reason.",
     "`ls -ld` for a path, `dmesg | tail` for a disk, `ulimit -a` for descriptors.",
     "Remove the cause that the system names, then start again. `paceline train` goes on with `--resume`, a script from what "
     "it has saved."},
    {"order", "A call at the wrong time",
     "A function of the C or C++ interface was called before or after its turn: a gradient twice in an iteration, a report before "
     "the end. The call did nothing.",
     "The sentence says what has to come first. The comment of the function says when it may be called.",
     "Correct the program's order of calls. `examples/linear_model` shows a whole job."},
    {"handle", "A handle that is none",
     "A function of the C interface got a handle of another type, one that is closed, or one from before a `fork`.",
     "Follow the variable from where it was made: each `paceline_close` ends it, also for its copies.",
     "Give the handle that the sentence asks for. After a `fork` the child makes its own."},
    {"null", "A pointer that must not be NULL", "A function of the C interface needs what this pointer should point to.",
     "The error's subject names the argument.", "Give it, or leave the call out."},
    {"struct", "A struct of another size",
     "A struct of the C interface says a size that this library does not know: its `size` was not set, or header and library are "
     "of different releases.",
     "Print `sizeof` of the struct beside the sizes in the sentence, and ask the question `version`.",
     "Set `size` to the `sizeof` of the struct, and compile with the header of the library that runs."},
};

}  // namespace

std::span<const ErrorPage> pages_of_requests() { return kRequestPages; }

}  // namespace paceline
