#include "engine/data/document_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "engine/options/count_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kStrideMin = 64;
constexpr std::int64_t kEntriesMax = 1 << 20;

}  // namespace

// The pieces of documents [first, last), read through a window on the stack.
class DocumentSamples::Pieces {
 public:
  Pieces(const DocumentIndex& documents, DocumentRange range, const DocumentRules& rules)
      : documents_(documents), range_(range), rules_(rules) {}

  std::optional<Piece> next() {
    while (range_.first < range_.last) {
      if (used_ + 1 >= filled_) refill();
      const std::int64_t start = starts_[used_];
      const std::int64_t rows = starts_[++used_] - start - 1;
      const std::int64_t document = range_.first++;
      if (rows < 1) {
        ++empty_;
      } else if (rows <= rules_.seq_len) {
        return Piece{document, start, rows};
      } else {
        if (overlong_++ == 0) first_overlong_ = {document, start, rows};
        if (rules_.overlong == Overlong::truncate) return Piece{document, start, rules_.seq_len};
      }
    }
    return std::nullopt;
  }

  // Of what next() has met.
  std::int64_t empty() const { return empty_; }
  std::int64_t overlong() const { return overlong_; }
  const Piece& first_overlong() const { return first_overlong_; }  // with all its rows

 private:
  // The starts of the next documents, and the end of the last of them.
  void refill() {
    const auto left = static_cast<std::size_t>(range_.last - range_.first);
    filled_ = std::min(left + 1, starts_.size());
    used_ = 0;
    documents_.read(range_.first, std::span(starts_).first(filled_));
  }

  const DocumentIndex& documents_;
  DocumentRange range_;  // what is left
  const DocumentRules& rules_;
  std::array<std::int64_t, 128> starts_;
  std::size_t used_ = 0;
  std::size_t filled_ = 0;
  std::int64_t empty_ = 0;
  std::int64_t overlong_ = 0;
  Piece first_overlong_{};
};

DocumentSamples::DocumentSamples(const TokenData& data, DocumentRange range,
                                 const DocumentRules& rules)
    : tokens_(*data.tokens),
      mask_(data.mask.get()),
      documents_(*data.documents),
      range_(range),
      rules_(rules),
      stride_(std::max(kStrideMin, ceil_div(range.last - range.first, kEntriesMax))),
      lengths_(static_cast<std::size_t>(ceil_div(rules.seq_len, kPaddedMultiple)) + 1) {
  STRATA_CHECK(range.first >= 0 && range.last <= documents_.documents());
  build_index();
}

bool DocumentSamples::fits(std::int64_t used_rows, const Piece& piece) const {
  if (used_rows == 0) return true;
  return rules_.packing == Packing::next_fit && used_rows + piece.rows <= rules_.seq_len;
}

void DocumentSamples::build_index() {
  Pieces pieces(documents_, range_, rules_);
  std::int64_t used_rows = 0;  // of the last sample
  while (const auto piece = pieces.next()) {
    if (samples_ == 0 || !fits(used_rows, *piece)) {
      if (samples_++ % stride_ == 0) index_.push_back(piece->document);
      used_rows = 0;
    }
    used_rows += piece->rows;
    rows_ += piece->rows;
    longest_ = std::max(longest_, piece->rows);
    ++lengths_[static_cast<std::size_t>(ceil_div(piece->rows, kPaddedMultiple))];
  }
  empty_ = pieces.empty();
  overlong_ = pieces.overlong();
  if (overlong_ > 0 && rules_.overlong == Overlong::error) refuse_overlong(pieces);
  if (samples_ == 0) refuse_nothing();
}

void DocumentSamples::refuse_nothing() const {
  const std::string documents = count_text(range_.last - range_.first, "document");
  if (overlong_ == 0) throw_error<ConfigError>("{} leave no token to predict", documents);
  throw_error<ConfigError>(
      "{} leave no token to predict: {} with more than the {} tokens of a sequence are dropped; "
      "use a longer --seq-len, or --overlong truncate",
      documents, with_separators(overlong_), rules_.seq_len + 1);
}

void DocumentSamples::refuse_overlong(const Pieces& pieces) const {
  throw_error<ConfigError>(
      "{} of {} {} more than the {} tokens of a sequence (--seq-len {} and the token after it), "
      "the "
      "first is document {} with {}; use a longer --seq-len, or --overlong truncate or drop",
      with_separators(overlong_), count_text(range_.last - range_.first, "document"),
      overlong_ == 1 ? "has" : "have", rules_.seq_len + 1, rules_.seq_len,
      pieces.first_overlong().document, pieces.first_overlong().rows + 1);
}

SampleLayout DocumentSamples::layout() const {
  return rules_.packing == Packing::none ? SampleLayout::padded : SampleLayout::packed;
}

// Padded: the mean over all micro-batches that can be drawn, of which one with documents of no more
// than n rows has the probability F(n)^micro_batch.
std::string DocumentSamples::padding_text() const {
  double rows = static_cast<double>(rules_.seq_len);  // of a sample, as it is computed
  if (rules_.packing == Packing::none) {
    rows = 0;
    std::int64_t documents = 0;
    double before = 0;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      documents += lengths_[i];
      const double share = static_cast<double>(documents) / static_cast<double>(samples_);
      const double chance = std::pow(share, static_cast<double>(rules_.micro_batch));
      const auto length = std::min(static_cast<std::int64_t>(i) * kPaddedMultiple, rules_.seq_len);
      rows += (chance - before) * static_cast<double>(length);
      before = chance;
    }
  }
  const double padding = 1 - static_cast<double>(rows_) / (rows * static_cast<double>(samples_));
  return fmt::format("{:.1f}% padding", 100 * padding);
}

std::string DocumentSamples::description() const {
  std::string text = fmt::format("{} of {}", count_text(samples_, "sequence"),
                                 count_text(range_.last - range_.first, "document"));
  text += rules_.packing == Packing::none
              ? fmt::format(", {} in all, {} in the longest, about {}", count_text(rows_, "token"),
                            with_separators(longest_), padding_text())
              : fmt::format(", packed, {}", padding_text());
  if (overlong_ > 0) {
    text += fmt::format(", {} too long and {}", with_separators(overlong_),
                        rules_.overlong == Overlong::drop ? "dropped" : "truncated");
  }
  if (empty_ > 0) text += fmt::format(", {} without a token to predict", with_separators(empty_));
  return text;
}

// visit(piece, its first row) for each of the sample's.
template <typename Visit>
void DocumentSamples::visit_pieces(std::int64_t sample, Visit&& visit) const {
  STRATA_CHECK(sample >= 0 && sample < samples_);
  const std::int64_t entry = sample / stride_;
  Pieces pieces(documents_, {index_[static_cast<std::size_t>(entry)], range_.last}, rules_);
  std::int64_t at = entry * stride_;
  std::int64_t used_rows = 0;  // of sample `at`
  while (const auto piece = pieces.next()) {
    if (!fits(used_rows, *piece)) {
      if (at++ == sample) return;
      used_rows = 0;
    }
    if (at == sample) visit(*piece, used_rows);
    used_rows += piece->rows;
  }
}

std::int64_t DocumentSamples::rows(std::int64_t sample) const {
  std::int64_t rows = 0;
  visit_pieces(sample, [&](const Piece& piece, std::int64_t) { rows += piece.rows; });
  return rows;
}

void DocumentSamples::read(std::int64_t sample, const SampleRows& rows) const {
  std::int64_t end = 0;
  visit_pieces(sample, [&](const Piece& piece, std::int64_t first) {
    end = first + piece.rows;
    STRATA_CHECK(end <= std::ssize(rows.tokens));
    const auto part = [&](std::span<std::int32_t> column) {
      return column.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(piece.rows));
    };
    read_rows(tokens_, mask_, piece.first_token, part(rows.tokens), part(rows.targets));
    const auto positions = part(rows.positions);
    std::iota(positions.begin(), positions.end(), 0);
    std::ranges::fill(part(rows.document_starts), static_cast<std::int32_t>(first));
  });
  pad_rows(rows, end);
}

}  // namespace strata::engine
