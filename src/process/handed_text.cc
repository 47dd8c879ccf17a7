#include "process/handed_text.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline {
namespace {

constexpr int kFirstOwn = 3;  // descriptor behind standard input, output and error

// By which a descriptor of ours is told from any other.
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

Status write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return error(ErrorKind::kIo, "cannot hand on {} bytes: {}", text.size(), std::strerror(errno));
    done += static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace

Result<HandedText> HandedText::make(const std::string& text) {
  HandedText handed(memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (handed.descriptor_ < 0) return error(ErrorKind::kIo, "cannot make memory to hand on: {}", std::strerror(errno));
  if (handed.descriptor_ < kFirstOwn) {  // this process began without one of the three, which a child gets a pipe for
    const int low = std::exchange(handed.descriptor_, fcntl(handed.descriptor_, F_DUPFD_CLOEXEC, kFirstOwn));
    close(low);
    if (handed.descriptor_ < 0) return error(ErrorKind::kIo, "cannot make memory to hand on: {}", std::strerror(errno));
  }
  PACELINE_RETURN_IF_ERROR(write_all(handed.descriptor_, text));
  if (fcntl(handed.descriptor_, F_ADD_SEALS, kSeals) != 0)
    return error(ErrorKind::kIo, "cannot seal memory that is handed on: {}", std::strerror(errno));
  return handed;
}

HandedText::~HandedText() {
  if (descriptor_ >= 0) close(descriptor_);
}

void HandedText::keep_on_exec() const { fcntl(descriptor_, F_SETFD, 0); }

Result<std::string> take_handed_text(int descriptor) {
  struct stat about {};
  if (fcntl(descriptor, F_GET_SEALS) != kSeals || fstat(descriptor, &about) != 0)
    return error(ErrorKind::kBadRequest, "descriptor {} holds no text that another process has handed on", descriptor);
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {  // from its beginning, wherever others who have it are
    const ssize_t count = pread(descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return error(ErrorKind::kIo, "cannot read what was handed on: {}", std::strerror(errno));
    done += static_cast<std::size_t>(count);
  }
  close(descriptor);
  return text;
}

}  // namespace paceline
