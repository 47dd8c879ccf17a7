// Pages of errors between processes: addresses, keys, joining, running, checkpoints.
#include "base/error_pages_tables.h"

namespace paceline {
namespace {

constexpr ErrorPage kProcessPages[] = {
    {"address", "No address to be used here",
     "What was given is no address, or it is one that this machine does not have, so nothing can listen there.",
     "`ip -brief address` lists this machine's own addresses; `--bind` takes one of them, `--join` that of the coordinator.",
     "Write `HOST:PORT`, `[IPV6]:PORT` or `unix:/PATH`. For `--bind` give the address at which the others reach this machine."},
    {"no-host", "A host name that nobody knows",
     "The name of a machine cannot be turned into an address on the machine that says so.",
     "`getent hosts NAME` on that machine; in a cluster also whether the name needs its domain.",
     "Correct the name, or give the address itself. `paceline doctor HOST` examines the way there."},
    {"port-in-use", "The port is taken",
     "Another process listens at this address already: often the same job's former coordinator, which still runs.",
     "`ss -ltnp sport = :PORT` names the process. Of a socket file: `ss -lxp`.",
     "End that process, or choose another port. Port 0 lets the system choose; the coordinator then prints the address."},
    {"refused", "Nobody listens there",
     "The machine answered that no process listens at this port: the coordinator is not started yet, has ended, or listens at "
     "another address.",
     "On that machine `ss -ltn` has a line with the port. A line with `127.0.0.1` is reachable only from the machine itself.",
     "Start the coordinator first, with `--bind` and the address that others use, and give `--join` the address that it prints."},
    {"unreachable", "A process could not be reached in time",
     "Nothing answered, although the address is valid: a firewall drops the packets, the machine is down, or a server listens at "
     "an address that others cannot reach. Or small packets pass, and large ones do not.",
     "`paceline doctor --serve` there and `paceline doctor HOST` here examine the way in both directions. `ping HOST` says only "
     "that the machine is up; `ping -M do -s 1472 HOST`, that packets of 1500 bytes pass.",
     "Open the port, give each process `--bind` with an address that the others reach, or wait longer with `--deadline`. Where "
     "large "
     "packets are lost, lower the MTU of the interface (`ip link set DEV mtu 1400`), or let ICMP pass."},
    {"not-paceline", "The other side is not Paceline",
     "What listens or connects there speaks another protocol: a web server, a port scan, a wrong port.",
     "`ss -ltnp` on that machine names the process that listens at the port.",
     "Give the address that the coordinator printed. Who only knocks is turned away, and the job goes on."},
    {"turned-away", "The job does not take this process",
     "The job has its workers and servers already, has begun, or another process has this rank: mostly a process was started "
     "twice, or the address is that of another job.",
     "Count the processes that were started against `--workers` and `--servers` of the coordinator, and look for two with one "
     "`--rank`. `pgrep -a paceline` shows leftovers of an earlier run.",
     "End what is left over, give every process its own rank, and use the address of the right job."},
    {"release", "Releases differ",
     "The processes of a job run different releases, or versions of the protocol, and do not try to understand each other.",
     "`paceline --version` on every machine; in Python `paceline.plan` and `PACELINE_LIBRARY` are of one installation.",
     "Install the same release everywhere, and start all processes again."},
    {"disagree", "Processes disagree on what they do",
     "All ranks have to give the same options and call the same operations in the same order. The sentence names two ranks and the "
     "first difference.",
     "Compare the command lines, `--config` files and environments of the two. In a script look for a branch that only some ranks "
     "take.",
     "Start every process with the same script and options: one `--config` file for all is simplest."},
    {"parted", "Ranks train apart",
     "Each rank steps its own copy of the model, so all must make the same steps with the same settings from the same state. The "
     "sentence names two ranks, the iteration and what differs: a step that one has left out, a setting of the optimizer, or a "
     "parameter.",
     "Look for what a script does on one rank only: `continue` after its own loss was not finite, an exception of its own "
     "`backward()` that it catches, a backward pass more for a picture, a scheduler that watches the rank's own loss, a state "
     "dict that is loaded on rank 0 only after `attach`.",
     "Do it on all ranks alike. Decide by what all of them see: a mean gradient, or a loss that `all_reduce` has made the same."},
    {"model-differs", "Models differ between workers",
     "Workers have tensors of different names, shapes or types, so their gradients cannot be added. The sentence names the first "
     "tensor that differs, with both shapes.",
     "Print the model's parameters on both ranks. Often the number of classes follows a data set that differs between machines.",
     "Build the same model on every rank, from the same version of the script."},
    {"key", "A job's key cannot be used",
     "The file of `--job-key-file` is not there, is no key, belongs to somebody else, or can be read by others.",
     "`ls -l FILE`: it has 32 bytes, mode 0600 and your user. `PACELINE_JOB_KEY_FILE` names it where no option does.",
     "`paceline key new FILE` makes one; copy the same file to every machine of the job, then `chmod 600 FILE`."},
    {"certificate", "A certificate cannot be used",
     "The file of `--job-key-file` has certificates, and they do not hold: expired, without its key, or not of the authority.",
     "`openssl x509 -in FILE -noout -subject -issuer -dates` shows the first one; `date` on both machines.",
     "Put the process's certificate, its private key and the authority's certificate into the file, in this order."},
    {"no-key", "Without a key everybody could join",
     "The job listens where other machines reach it, and nothing says who may join and read: so it is not begun.",
     "`--bind`, `--join` and `PACELINE_COORDINATOR` say where it listens; the loopback and `unix:` need no key.",
     "`paceline key new FILE`, copy it to every machine and give `--job-key-file FILE` everywhere. In a closed network "
     "`--security none` everywhere. In a program the two are `job_key_file` and `security`."},
    {"other-key", "The two sides have different keys",
     "One process has another key, another kind of key or none, so they refuse each other before anything is said.",
     "`sha256sum FILE` on both machines gives the same line for the same key. Look whether every process got `--job-key-file` or "
     "`PACELINE_JOB_KEY_FILE`, and `--allow-clear-data` all or none.",
     "Copy one key file to every machine and start all processes again."},
    {"absent", "Not everybody has come",
     "The job waits for all of its processes, and some did not join in time. The sentence says who is missing.",
     "Look whether the missing ones run (`pgrep -a paceline`, the launcher's own log) and what they printed: a process that could "
     "not join says why.",
     "Start who is missing, or ask for fewer. `--stall-deadline` says how long the others wait."},
    {"never-joined", "A program ended without joining",
     "`paceline run` started a program for each worker, and one ended without taking part in the job.",
     "Run the program alone: does it reach `paceline.torch.attach` or `paceline::Worker`? What it printed stands above.",
     "Let it join, or start it without `paceline run`."},
    {"program-failed", "A program that was started has failed",
     "Paceline started a program, and it ended with an error of its own: its exit code is in the sentence.",
     "What it printed stands above the sentence. Run the same command alone, with the same environment.",
     "Mend the program. Exit code 2 mostly says that its own arguments were wrong, 137 that it was killed, often for its memory."},
    {"peer-lost", "A process of the job is gone",
     "A process died, was killed or cut off, so the job cannot go on as it was. The sentence names who it was and where it stood.",
     "On its machine: `dmesg | grep -i oom` (killed for its memory), the launcher's log, and whether the machine is up. Look at "
     "that process's own last lines.",
     "Remove the cause and start the job again. `paceline train` with `--checkpoint DIR --resume` goes on where the last "
     "checkpoint "
     "is. A script with `attach` goes on from what it has saved itself, as `examples/torch/resumed.py` does."},
    {"stall", "No progress, though everybody is alive",
     "All processes answer, but one waited longer than `--stall-deadline` for another: that one computes for very long, hangs, or "
     "waits for something of its own.",
     "The sentence says who waits for whom. On that machine `top`, and `py-spy dump --pid PID` for a Python script.",
     "Mend what hangs. If an iteration may take that long (a first compilation, an evaluation), give a longer `--stall-deadline`; "
     "in a script `attach(..., settings={\"stall-deadline\": \"1h\"})`."},
    {"ended-early", "A worker has done fewer iterations",
     "Workers that go in step do as many iterations each. One of them has ended, and the others would wait for ever.",
     "Print the length of the data loader on every rank: a shard that does not divide evenly gives some ranks one iteration more.",
     "Give all ranks the same number: drop the last incomplete mini-batch, or stop after the smallest. With `--sync asp` they may "
     "differ."},
    {"deadline", "It took longer than its limit", "Something had a limit of time, and was not done by then.",
     "The sentence names the limit and, where it is an option, its name.",
     "Give it longer, or find out what is slow: `paceline doctor HOST` for a network, the report's `bound` for a job."},
    {"timeout", "An operation of the process group took too long",
     "An operation of `torch.distributed` was not over within the timeout of its group: another rank has not begun it, or works.",
     "On each rank see which operation is called last. `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares the calls.",
     "Call the operation on all ranks, or give `init_process_group` a longer `timeout`."},
    {"not-finite", "A gradient is not finite",
     "A gradient became infinite or no number, which would have spoiled the parameters for good; the step was not made.",
     "The sentence names worker, layer and iteration. See whether the loss grew before (`--metrics FILE`), and whether that "
     "mini-batch has broken samples.",
     "Lower the learning rate, clip (`--clip-norm`), use `float32` on the wire, or leave such iterations out with "
     "`--non-finite skip`."},
    {"cancelled", "Somebody asked to stop", "The job ended because of Ctrl-C, a signal or a call that closes it. Nothing is wrong.",
     "Where it was not you: the launcher's or scheduler's log says who sent the signal.",
     "With `paceline train --checkpoint DIR` there is a checkpoint of the last iteration: go on with `--resume`. A script that "
     "looks at "
     "`job.stopping` can save before it leaves its loop."},
    {"corrupt", "Bytes failed their check", "What was read or received is not what was written or sent. Nothing of it was used.",
     "If it came over a network, `paceline doctor HOST` and the interface's own counters (`ip -s link`). If it came from a disk, "
     "read the file again elsewhere.",
     "Fetch it again. If it happens again, suspect memory, cable or disk of the machine in the sentence."},
    {"no-checkpoint", "There is nothing to go on from", "`--resume` was given, and the folder has no finished checkpoint.",
     "`ls` of the folder: a checkpoint is a folder of its own, with a number and a manifest in it. One that was never finished "
     "does not count.",
     "Give `--checkpoint` the folder of the earlier job, or leave `--resume` out to begin anew."},
    {"bad-checkpoint", "A checkpoint is damaged",
     "A checkpoint's bytes do not match their checksums or their seal, or parts are missing. It is not used, and an older good one "
     "is taken where there is one.",
     "`ls -l` of the folder in the sentence: files that are shorter than their neighbours were cut off by a full disk. With "
     "`--checkpoint-key` it may be another key.",
     "Restore the files from a copy, give the key that it was written with, or move that one away to go on from an older one."},
    {"other-job", "The checkpoint is of another job",
     "A checkpoint goes on only with what it was made with: model, optimizer, mini-batch, number of workers. The sentence has all "
     "differences, there and here.",
     "The manifest in the checkpoint's folder has all of its settings.",
     "Leave those options out, for `paceline train --resume` takes them from the checkpoint; a program gives what it was made "
     "with. Or give another folder to `--checkpoint`."},
    {"ssh", "ssh did not reach a machine",
     "`--hosts` starts the other processes by ssh, and ssh itself failed, before or in the middle of the job.",
     "`ssh -o BatchMode=yes HOST true` must end without a question. `--ssh` says which ssh is used.",
     "Set up a key (`ssh-copy-id HOST`), accept the host's key once by hand, and see that the machine is up."},
};

}  // namespace

std::span<const ErrorPage> pages_of_processes() { return kProcessPages; }

}  // namespace paceline
