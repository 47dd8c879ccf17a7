#include "paceline/train/trainer_program.h"

#include <cerrno>
#include <filesystem>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error_line.h"
#include "paceline/beside.h"
#include "paceline/command.h"
#include "process/child.h"
#include "worker/worker_request.h"

namespace paceline::cli {
namespace {

using report::Json;

// Waits for the end of the process; `on_line` gets every line that it prints.
Status run_child(const char* label, const std::vector<std::string>& arguments, const std::vector<int>& kept,
                 const std::function<void(const std::string&)>& on_line) {
  PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start(label, arguments, {}, kept));
  SaidError said;
  while (child->output() >= 0 || child->errors() >= 0) {
    pollfd ends[] = {{child->output(), POLLIN, 0}, {child->errors(), POLLIN, 0}};
    if (poll(ends, 2, -1) < 0 && errno != EINTR) return error(ErrorKind::kIo, "cannot wait for {}: errno {}", label, errno);
    child->read_output(on_line);
    child->read_errors([&](const std::string& line) {
      if (auto read = read_error_line(line))
        said = std::move(*read);
      else
        say(stderr, line + "\n");
    });
  }
  child->wait();
  if (child->wait_status() == 0) return {};
  const bool wrong = WIFEXITED(child->wait_status()) && WEXITSTATUS(child->wait_status()) == kWrongRequest;
  if (said.sentence.empty()) said = {fmt::format("{} {}", label, child->ending()), "program-failed"};
  return Status(wrong ? ErrorKind::kBadRequest : ErrorKind::kIo, said.sentence, {said.code, ""});
}

}  // namespace

std::string own_path() { return own_program().string(); }

std::string trainer_path() { return program_beside("paceline-trainer").string(); }

Status trainer_exists() {
  if (std::filesystem::exists(trainer_path())) return {};
  return error(ErrorKind::kIo,
               "{} is missing: this build has no trainer; build with -DPACELINE_TRAINER=ON (scripts/quickstart does)",
               trainer_path())
      .because({"not-installed", ""});
}

Result<ForkingTrainer> ForkingTrainer::start(const std::vector<NamedRequest>& requests, std::vector<int> kept) {
  PACELINE_RETURN_IF_ERROR(trainer_exists());
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that they are this process's children once the one that forked them is gone
  ForkingTrainer trainer;
  std::vector<int> own;
  Json list = Json::array();
  for (const auto& [label, request] : requests) {
    PACELINE_ASSIGN_OR_RETURN(const Pipe output, make_pipe());
    PACELINE_ASSIGN_OR_RETURN(const Pipe errors, make_pipe());
    list.push_back({{"request", request}, {"output", output.write}, {"errors", errors.write}});
    trainer.workers_.push_back({label, output.read, errors.read});
    own.insert(own.end(), {output.write, errors.write});
  }
  PACELINE_ASSIGN_OR_RETURN(const HandedText handed, HandedText::make(list.dump()));
  const std::string argument = Json::array({{{"workers", requests.size()}, {"requests", handed.descriptor()}}}).dump();
  kept.insert(kept.end(), own.begin(), own.end());
  kept.push_back(handed.descriptor());
  PACELINE_ASSIGN_OR_RETURN(trainer.process_, Child::start("the trainer", {trainer_path(), argument}, {}, kept));
  for (const int descriptor : own) close(descriptor);
  return trainer;
}

std::unique_ptr<Child> ForkingTrainer::adopt(const std::string& line) {
  const Worker& worker = workers_.at(adopted_++);
  return Child::adopt(worker.label, std::stoi(line), worker.output, worker.errors);
}

Status run_trainer(const report::Json& request, const std::function<void(const report::Json&)>& on_line) {
  PACELINE_RETURN_IF_ERROR(trainer_exists());
  PACELINE_ASSIGN_OR_RETURN(const HandedText handed, HandedText::make(request.dump()));
  const std::vector<std::string> command = {trainer_path(), worker::argument_of(-1, handed)};
  return run_child("the trainer", command, {handed.descriptor()}, [&](const std::string& line) {
    const report::Json json = report::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) on_line(json);
  });
}

Result<std::string> run_paceline(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), own_path());
  std::string output;
  PACELINE_RETURN_IF_ERROR(run_child("paceline", arguments, {}, [&](const std::string& line) { output += line + "\n"; }));
  return output;
}

}  // namespace paceline::cli
