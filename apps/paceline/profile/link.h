// Measures the link between this machine and another where a doctor serves, or its own loopback.
#pragma once

#include "paceline/profile/measured_link.h"
#include "paceline/profile/profile.h"

namespace paceline::cli {

// kBadRequest that names the option: --server that is no address, --bandwidth or --start-up that are no quantities, one of them
// without the other, or beside --server.
Status check_link_options(const ProfileOptions& options);

// Of the options' server, or of one of its own on the loopback. Shows progress. Errors: as ask(), as fit_pulls().
Result<MeasuredLink> measure_link(const ProfileOptions& options);

// What the options give, else measured; a link that does not tell its rate counts as what `train` would take it for, with a
// warning. Errors: a server that cannot be reached.
Result<MeasuredLink> link_of(const ProfileOptions& options);

}  // namespace paceline::cli
