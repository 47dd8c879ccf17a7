// A page for each code of an error: what it means, how to check, what to do. `paceline help PL-...`, docs/reference/codes.md and
// the question "errors" of the C interface show the same one.
//
// A new code is a word of at most 15 letters where the Status is made, and a row of a table; a test finds the one without the
// other. Texts name commands and options in `these`; a page is for a person who has just read the sentence of the error.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paceline {

struct ErrorPage {
  std::string_view code;    // Status::code()
  std::string_view title;   // what has happened
  std::string_view means;   // what it means, and who sees it
  std::string_view check;   // how to find out more
  std::string_view remedy;  // what to do
};

// In the order in which a person meets them.
std::span<const ErrorPage> error_pages();

// Null: there is none. O(pages).
const ErrorPage* error_page_of(std::string_view code);

// As people see it: "port-in-use" is "PL-PORT-IN-USE".
std::string shown_code(std::string_view code);
// The other way round, in whatever case; "" for what does not begin like a shown code.
std::string code_shown_as(std::string_view shown);

}  // namespace paceline
