#include "ntpsim/analysis/results.h"

#include "render.h"

namespace ntpsim::analysis {

std::optional<Format> find_format(std::string_view name) {
  if (name == "text") return Format::kText;
  if (name == "json") return Format::kJson;
  if (name == "csv") return Format::kCsv;
  return std::nullopt;
}

std::string render(const GoodputStudy& study, const LoadedScenario& loaded, Format format) {
  switch (format) {
    case Format::kJson:
      return render_json(study, loaded);
    case Format::kCsv:
      return render_csv(study, loaded);
    case Format::kText:
      break;
  }
  return render_text(study, loaded);
}

std::string render(std::span<const AvailabilityPoint> points, std::int64_t draws,
                   const LoadedScenario& loaded, Format format) {
  switch (format) {
    case Format::kJson:
      return render_json(points, draws, loaded);
    case Format::kCsv:
      return render_csv(points, draws, loaded);
    case Format::kText:
      break;
  }
  return render_text(points, draws, loaded);
}

}  // namespace ntpsim::analysis
