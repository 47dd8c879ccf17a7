#include "trainer/model_files.h"

#include <algorithm>
#include <fstream>

#include <torch/torch.h>

#include "base/log.h"
#include "checkpoint/safetensors.h"

namespace paceline::trainer {
namespace {

std::string dtype_name(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return "float32";
    case torch::kFloat64:
      return "float64";
    case torch::kInt64:
      return "int64";
    case torch::kInt32:
      return "int32";
    case torch::kUInt8:
      return "uint8";
    case torch::kBool:
      return "bool";
    default:
      return torch::toString(tensor.scalar_type());
  }
}

// Contiguous copies, so that views of any kind have bytes to write.
std::vector<std::pair<std::string, torch::Tensor>> contiguous_buffers(const ModuleAdapter& adapter) {
  auto buffers = adapter.buffers();
  for (auto& [name, buffer] : buffers) buffer = buffer.detach().cpu().contiguous();
  return buffers;
}

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// As the kernel names it: LibTorch's libraries choose their loops by it.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(": ") + 2));
  }
  return "a processor without a name";
}

// What the bits of an iteration depend on besides the job.
std::string fingerprint() {
  return fmt::format("torch {}, {} on {}, {} thread", TORCH_VERSION, at::get_cpu_capability(), processor(), at::get_num_threads());
}

}  // namespace

bool save_part_if_due(runtime::WorkerProcess& process, const ModuleAdapter& adapter, Iteration iteration, Place place) {
  if (!process.checkpoint_due(iteration, place == Place::kLast)) return false;
  checkpoint::PartHead head{.fingerprint = fingerprint()};
  std::vector<std::span<const std::byte>> contents;
  const auto buffers = contiguous_buffers(adapter);
  for (const auto& [name, buffer] : buffers) {
    checkpoint::SavedArray array;
    array.name = name;
    array.dtype = dtype_name(buffer);
    array.shape = buffer.sizes().vec();
    array.elements = buffer.numel();
    head.arrays.push_back(std::move(array));
    contents.push_back(bytes_of(buffer));
  }
  process.save_part(iteration, std::move(head), contents);
  return true;
}

Status restore_part(const runtime::WorkerProcess& process, const ModuleAdapter& adapter) {
  const job::JobSpec& settings = process.settings();
  const std::string file = checkpoint::PartHead{"worker", process.rank().value, settings.saving.iteration, "", {}}.file_name();
  const std::string path = settings.saving.from + "/" + file;
  PACELINE_ASSIGN_OR_RETURN(const checkpoint::PartReader part,
                            checkpoint::open_part(system_files(), settings.saving, file, process.seal()));
  const checkpoint::PartHead& head = part.head();
  auto buffers = adapter.buffers();
  if (head.arrays.size() != buffers.size()) {
    return error(ErrorKind::kBadRequest, "{} holds {} buffers, the model has {}; resume with the model it was made with", path,
                 head.arrays.size(), buffers.size());
  }
  torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    auto& [name, buffer] = buffers[i];
    const checkpoint::SavedArray& saved = head.arrays[i];
    if (saved.name != name || saved.dtype != dtype_name(buffer) || saved.shape != buffer.sizes().vec() ||
        saved.bytes != buffer.nbytes()) {
      return error(ErrorKind::kBadRequest,
                   "{} holds buffer \"{}\" where the model has \"{}\", or of another shape; resume with the model it was made with",
                   path, saved.name, name);
    }
    torch::Tensor values = torch::empty(buffer.sizes(), buffer.options().device(torch::kCPU));
    PACELINE_RETURN_IF_ERROR(part.read(i, {static_cast<std::byte*>(values.data_ptr()), values.nbytes()}));
    buffer.copy_(values);
  }
  if (head.fingerprint != fingerprint()) {
    log::warn("the checkpoint was made with {}, this is {}: resuming is correct, but not bit for bit what an undisturbed run gives",
              head.fingerprint, fingerprint());
  }
  return {};
}

Status export_model(const std::string& path, ModuleAdapter& adapter, const job::JobSpec& settings, const data::DatasetPair& data) {
  std::vector<checkpoint::ExportedTensor> tensors;
  const wire::TensorTable& table = adapter.table();
  const std::vector<std::int64_t> offsets = table.offsets();
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const auto values =
        adapter.parameters().subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
    tensors.push_back({table.tensors[i].name, "float32", table.tensors[i].shape, std::as_bytes(values)});
  }
  const auto buffers = contiguous_buffers(adapter);
  for (const auto& [name, buffer] : buffers) tensors.push_back({name, dtype_name(buffer), buffer.sizes().vec(), bytes_of(buffer)});
  std::vector<std::pair<std::string, std::string>> metadata = {
      {"format", "pt"}, {"model", settings.task.model}, {"dataset", settings.task.dataset}};
  for (auto& line : data::described(data)) metadata.push_back(std::move(line));
  return checkpoint::write_safetensors(system_files(), path, tensors, metadata);
}

}  // namespace paceline::trainer
