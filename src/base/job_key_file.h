// Where a job's key comes from. A source is the path of a file, or "fd:N", a descriptor that this process has inherited and that
// somebody else opened for it (a parent, which has checked what it opened); "fd:N,clear-data" is a key that leaves data clear. A
// file is treated as ssh treats one: regular, of this user or of root, nobody else may read or write it, exactly JobKey::kBytes
// bytes.
//
// Errors: kBadRequest that names the source, what was found and what to do; kIo when the system refuses.
#pragma once

#include <string>

#include "base/job_key.h"

namespace paceline {

Result<JobKey> read_job_key(const std::string& source);

// A new file that only this user may read. kBadRequest when anything is there already, be it a link to nothing.
Status write_job_key(const std::string& path, const JobKey& key);

}  // namespace paceline
