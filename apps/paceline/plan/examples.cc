#include "paceline/plan/examples.h"

#include <map>

#include "base/check.h"

namespace paceline::cli {

const char* examples_of(const std::string& question) {
  static const std::map<std::string, const char*> kExamples = {
      {"batches",
       "  paceline plan batches --algorithm exact --start-up 1ms --transfer 0.002,0.003,0.004 --forward 0.003,0.003,0.003\n"
       "  echo '{\"start_up\":0.001,\"transfer\":[0.002,0.003],\"backward\":[0.004,0.004],\"bounds\":[1,2]}' |\n"
       "    paceline plan batches --algorithm given --side push --input - --json"},
      {"iteration",
       "  paceline plan iteration --nodes 4 --bandwidth 1gbit --layers "
       "'[{\"parameters\":1000000,\"forward\":0.01,\"backward\":0.02}]'\n"
       "  echo '{\"nodes\":8,\"bandwidth\":125e6,\"layers\":[{\"bytes\":4e6,\"forward_s\":0.01,\"backward_s\":0.02}]}' |\n"
       "    paceline plan iteration --input - --json"},
      {"speedup",
       "  paceline plan speedup --input vgg19 --bandwidth 1gbit --machines 1,2,4,8\n"
       "  paceline plan speedup --model lenet --mini-batch 64 --bandwidth 1gbit --machines 1,2,4"},
      {"slice",
       "  paceline plan slice --nodes 4 --bytes 100MB --alpha 100us --bandwidth 1gbit\n"
       "  echo '[{\"nodes\":4,\"bytes\":100000000,\"alpha\":1e-4,\"bandwidth\":125e6}]' | paceline plan slice --input - --json"},
      {"collective",
       "  paceline plan collective --operation allreduce --algorithm best --ranks 16 --bytes 100MB --alpha 20us --beta 8e-9 "
       "--gamma "
       "1e-10\n"
       "  echo '[{\"ranks\":4,\"bytes\":16000000,\"alpha\":2e-5,\"gamma\":0,\"rates\":[125e6,31.25e6,125e6,125e6]}]' |\n"
       "    paceline plan collective --operation broadcast --input - --json"},
      {"barrier",
       "  paceline plan barrier --last-end 0,0 --interval 1,3 --lookahead 6 --objective waiting-share\n"
       "  echo '{\"ends\":[[1,2,3],[2.5,5]]}' | paceline plan barrier --input - --json"},
      {"gpus",
       "  paceline plan gpus --overhead 0.1 --speedup 3\n"
       "  paceline plan gpus --gpus 4 --efficiency 0.8 --json"},
      {"servers",
       "  paceline plan servers --parameter-bytes 244MB --workers 8 --bandwidth 10gbit --compute-time 1s --duplex full\n"
       "  paceline plan servers --parameter-bytes 574MB --workers 4 --bandwidth 10gbit --worker-bandwidth 1gbit --compute-time 2s "
       "--duplex half --json"},
      {"memory",
       "  paceline plan memory --model alexnet --mini-batch 128 --memory 12GiB\n"
       "  echo '[{\"model\":\"vgg-19\",\"mini_batch\":32,\"memory\":17179869184}]' | paceline plan memory --input - --json"},
      {"algorithms",
       "  paceline plan algorithms --bound 100 --layers "
       "'[[{\"time\":3,\"memory\":0},{\"time\":1,\"memory\":80}],[{\"time\":2,\"memory\":50}]]'\n"
       "  echo '{\"bound\":10,\"layers\":[[{\"time\":1,\"memory\":20}]]}' | paceline plan algorithms --input - --json"},
      {"mini-batch",
       "  paceline plan mini-batch --samples 1000 --candidates "
       "'[{\"mini_batch\":32,\"bound\":9,\"layers\":[[{\"time\":0.1,\"memory\":4}]]}]'\n"
       "  echo '{\"samples\":60,\"candidates\":[{\"mini_batch\":10,\"bound\":4,\"layers\":[[{\"time\":2,\"memory\":3}]]},"
       "{\"mini_batch\":20,\"bound\":2,\"layers\":[[{\"time\":3,\"memory\":3},{\"time\":5,\"memory\":1}]]}]}' | paceline "
       "plan mini-batch --input - --json"},
      {"fft-ratio",
       "  paceline plan fft-ratio --mini-batch 128 --input-size 224,224 --output 55,55 --depth 3 --filters 96\n"
       "  echo '{\"mini_batch\":128,\"input\":[13,13],\"output\":[13,13],\"depth\":384,\"filters\":256}' | paceline plan "
       "fft-ratio --input - --json"},
  };
  const auto found = kExamples.find(question);
  PACELINE_CHECK(found != kExamples.end(), "no examples of plan {}", question);
  return found->second;
}

}  // namespace paceline::cli
