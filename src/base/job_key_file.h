// Where a job's key comes from. A source is the path of a file, or "fd:N", a descriptor that this process has inherited and that
// somebody else opened for it (a parent, which has checked what it opened); "fd:N,clear-data" is a key that leaves data clear. A
// file is treated as ssh treats one: regular, of this user or of root, nobody else may read or write it, exactly JobKey::kBytes
// bytes. Root may let a group of this user's read it, as Kubernetes does with a Secret and an fsGroup.
//
// Errors: kBadRequest that names the source, what was found and what to do; kIo when the system refuses.
#pragma once

#include <span>
#include <string>

#include <sys/types.h>

#include "base/job_key.h"

namespace paceline {

// Whether a file of that owner, group and mode may hold the key of a process of `user` with `groups`. Pure.
struct KeyFile {
  ::uid_t owner;
  ::gid_t group;
  ::mode_t mode;
};
enum class KeyRights { kFit, kAnotherUsers, kTooOpen };
KeyRights rights_of(const KeyFile& file, ::uid_t user, std::span<const ::gid_t> groups);

Result<JobKey> read_job_key(const std::string& source);

// A new file that only this user may read. kBadRequest when anything is there already, be it a link to nothing.
Status write_job_key(const std::string& path, const JobKey& key);

}  // namespace paceline
