#include "report/error_pages_json.h"

#include "base/error_pages.h"

namespace paceline::report {

Json error_pages_json() {
  auto pages = Json::array();
  for (const ErrorPage& page : error_pages()) {
    pages.push_back({{"code", page.code},
                     {"shown", shown_code(page.code)},
                     {"title", page.title},
                     {"means", page.means},
                     {"check", page.check},
                     {"remedy", page.remedy}});
  }
  return pages;
}

}  // namespace paceline::report
