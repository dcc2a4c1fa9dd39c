#include "engine/step/shared_text.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace strata::engine {

std::string broadcast_text(comm::Communicator& comm, std::string text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  comm.broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  text.resize(static_cast<std::size_t>(length));
  comm.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

std::vector<std::string> gather_texts(comm::Communicator& comm, const std::string& mine) {
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(&length, 1)),
                       std::as_writable_bytes(std::span(lengths)));
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded = mine;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  comm.all_gather_host(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    texts.push_back(all.substr(r * longest, static_cast<std::size_t>(lengths[r])));
  }
  return texts;
}

}  // namespace strata::engine
