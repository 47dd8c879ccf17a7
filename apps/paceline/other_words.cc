#include "paceline/other_words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace paceline::cli {
namespace {

struct Words {
  std::string_view ours;    // an option
  std::string_view theirs;  // with a blank on both sides of each
};

constexpr Words kOptions[] = {
    {"--learning-rate", " --lr --base-lr --init-lr "},
    {"--mini-batch", " -b --bs --batch --batch-size --train-batch-size --per-device-train-batch-size --micro-batch-size "},
    {"--workers",
     " -n -np -c --np --nproc --nprocs --num-proc --num-procs --nproc-per-node --num-processes --processes --num-workers --ntasks "
     "--ranks --world-size --replicas "},
    {"--hosts", " -N -H --host --hostfile --hostlist --nodelist --nodes --nnodes --num-nodes --num-machines --node "},
    {"--pass", " -x --env --genv --env-var "},
    {"--epochs", " -e --epoch --num-epochs --max-epochs --num-train-epochs "},
    {"--iterations", " --steps --max-steps --num-steps --train-steps --iters --max-iters --num-iters --max-iter "},
    {"--dataset", " --data --data-dir --data-path --data-root --train-data "},
    {"--model", " -a --arch --network --net --model-name "},
    {"--optimizer", " --opt --optim "},
    {"--weight-decay", " --wd --l2 "},
    {"--clip-norm", " --clip --clip-grad --grad-clip --max-grad-norm --gradient-clip-val --gradient-clipping "},
    {"--wire", " --fp16 --bf16 --amp --precision --mixed-precision --dtype --compression "},
    {"--checkpoint", " --output-dir --save --save-dir --ckpt --ckpt-dir --checkpoint-dir --default-root-dir "},
    {"--checkpoint-every", " --save-every --save-steps --save-freq --save-interval "},
    {"--evaluate-every", " --eval-every --eval-steps --val-check-interval --eval-interval "},
    {"--resume", " --resume-from --resume-from-checkpoint --ckpt-path --continue "},
    {"--metrics", " --log --logdir --log-dir --logging-dir --log-interval "},
    {"--trace", " --timeline --timeline-filename --profile "},
    {"--join", " --master --master-addr --master-address --rdzv-endpoint --coordinator --server-address "},
    {"--rank", " --node-rank --machine-rank --local-rank "},
    {"--port", " -p --port --master-port --main-process-port --rdzv-port "},
};
constexpr std::string_view kDevices =
    " --gpu --gpus --device --devices --cuda --accelerator --gpu-ids --device-ids --gpus-per-node --num-gpus --n-gpu --ngpus "
    "--use-gpu "
    "--use-cuda ";
constexpr std::array<std::string_view, 3> kTraining = {"train", "run", "coordinator"};

bool among(std::string_view words, const std::string& word) { return words.find(" " + word + " ") != std::string_view::npos; }

}  // namespace

std::string other_word(std::string_view command, std::string_view option, const std::function<bool(const std::string&)>& has) {
  std::string word(option);
  std::ranges::replace(word, '_', '-');
  if (has(word)) return fmt::format(" (did you mean '{}'?)", word);
  if (std::ranges::find(kTraining, command) == kTraining.end()) return {};
  if (among(kDevices, word))
    return "; networks of 'paceline train' compute on processors. A PyTorch script with paceline.torch.attach computes on the GPU "
           "that its "
           "model is on, with a rank for each";
  const auto* const found = std::ranges::find_if(kOptions, [&](const Words& words) { return among(words.theirs, word); });
  if (found == std::end(kOptions)) return {};
  const std::string ours(found->ours);
  if (has(ours)) return fmt::format("; here that is {}", ours);
  if (ours == "--port") return "; the coordinator takes a free port, and 'paceline coordinator' has --port for one that is known";
  if (command == "run") return "; what is your program's own stands behind --, with the program";
  return {};
}

}  // namespace paceline::cli
