// What other tools call options of ours, for whoever brings their words. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace paceline::cli {

// `option` as typed ("--lr", "-np", "--max_steps"), which `command` does not have; `has` says which options it has. A clause to
// stand behind that ("; here that is --learning-rate"), or "": no other tool's word is known.
std::string other_word(std::string_view command, std::string_view option, const std::function<bool(const std::string&)>& has);

}  // namespace paceline::cli
