// The file by which a Unix domain socket is found: who may take its name, and its removal.
#pragma once

#include <string>

#include <sys/types.h>

#include "transport/sockets/socket_family.h"

namespace paceline::transport {

// The endpoint of a path. Errors: kBadRequest when it is too long.
Result<SocketEndpoint> endpoint_of(const std::string& path);

// Removes what processes of this user that were killed have left at `path` and beside it.
void remove_left_behind(const std::string& path);

class SocketFile {
 public:
  // Binds and listens: makes the file, in place of one that a process of this user left behind. Errors: kBadRequest when there can
  // be no such file; kIo when somebody listens there.
  static Result<std::shared_ptr<SocketFile>> listen(Acceptor& socket, const std::string& path);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  SocketFile(std::string path, dev_t device, ino_t inode) : path_(std::move(path)), device_(device), inode_(inode) {}

  std::string path_;
  dev_t device_;  // of our file, should somebody have put another one there
  ino_t inode_;
};

}  // namespace paceline::transport
