// What the tests of ops use of GoogleTest, for machines without it. Death tests are left out.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace testing {

struct Case {
  std::string name;
  std::function<void()> run;
};
inline std::vector<Case> cases;
inline std::vector<std::function<void()>> instantiations;  // each adds cases
inline bool failed = false;                                // the case that runs

class Message {
 public:
  template <typename T>
  Message& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

class Failure {
 public:
  Failure(const char* file, int line, std::string what)
      : file_(file), line_(line), what_(std::move(what)) {}
  void operator=(const Message& message) const {
    failed = true;
    std::printf("%s:%d: %s %s\n", file_, line_, what_.c_str(), message.text().c_str());
  }

 private:
  const char* file_;
  int line_;
  std::string what_;
};

class Test {
 public:
  virtual ~Test() = default;
  virtual void SetUp() {}
  virtual void TestBody() = 0;
};

template <typename T>
class TestWithParam : public Test {
 public:
  using ParamType = T;
  const T& GetParam() const { return *current; }
  static inline const T* current = nullptr;
};

template <typename T>
struct TestParamInfo {
  T param;
  std::size_t index;
};

template <typename T>
void run() {
  T body;
  Test& test = body;  // whose functions are public
  test.SetUp();
  if (!failed) test.TestBody();
}

inline int add(std::string name, std::function<void()> body) {
  cases.push_back({std::move(name), std::move(body)});
  return 0;
}

template <typename Suite>
std::vector<Case>& tests_of() {
  static std::vector<Case> tests;
  return tests;
}

template <typename Suite>
int add_to(const char* name, std::function<void()> body) {
  tests_of<Suite>().push_back({name, std::move(body)});
  return 0;
}

template <typename... T>
auto Values(const T&... values) {
  return std::vector<std::common_type_t<T...>>{values...};
}
template <typename Range>
auto ValuesIn(const Range& range) {
  return std::vector(std::begin(range), std::end(range));
}

template <typename Suite, typename Values, typename Namer>
void instantiate(const std::string& suite, const Values& values, Namer name_of_value) {
  using Param = typename Suite::ParamType;
  for (const Case& test : tests_of<Suite>()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Param param = values[i];
      add(suite + "." + test.name + "/" +
              std::string(name_of_value(TestParamInfo<Param>{param, i})),
          [param, body = test.run] {
            TestWithParam<Param>::current = &param;
            body();
          });
    }
  }
}
template <typename Suite, typename Values>
void instantiate(const std::string& suite, const Values& values) {
  instantiate<Suite>(suite, values, [](const auto& info) { return std::to_string(info.index); });
}
inline int add_instantiation(std::function<void()> body) {
  instantiations.push_back(std::move(body));
  return 0;
}

template <typename A, typename B>
bool is_near(A a, B b, double tolerance) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= tolerance;
}

}  // namespace testing

#define STAND_IN_CLASS(suite, name) suite##_##name##_Test
#define STAND_IN_TEST(suite, name, base, registration)                          \
  class STAND_IN_CLASS(suite, name) : public base {                             \
   public:                                                                      \
    void TestBody() override;                                                   \
  };                                                                            \
  [[maybe_unused]] static const int suite##_##name##_registered = registration; \
  void STAND_IN_CLASS(suite, name)::TestBody()

#define TEST(suite, name)                     \
  STAND_IN_TEST(suite, name, ::testing::Test, \
                ::testing::add(#suite "." #name, ::testing::run<STAND_IN_CLASS(suite, name)>))
#define TEST_F(suite, name)         \
  STAND_IN_TEST(suite, name, suite, \
                ::testing::add(#suite "." #name, ::testing::run<STAND_IN_CLASS(suite, name)>))
#define TEST_P(suite, name)         \
  STAND_IN_TEST(suite, name, suite, \
                ::testing::add_to<suite>(#name, ::testing::run<STAND_IN_CLASS(suite, name)>))
#define INSTANTIATE_TEST_SUITE_P(prefix, suite, ...)                  \
  [[maybe_unused]] static const int prefix##_##suite##_instantiated = \
      ::testing::add_instantiation(                                   \
          [] { ::testing::instantiate<suite>(#prefix "/" #suite, __VA_ARGS__); })

#define STAND_IN_CHECK(condition, what, on_failure) \
  switch (0)                                        \
  case 0:                                           \
  default:                                          \
    if (condition) {                                \
    } else                                          \
      on_failure ::testing::Failure(__FILE__, __LINE__, what) = ::testing::Message()

#define EXPECT_TRUE(x) STAND_IN_CHECK((x), #x, )
#define EXPECT_FALSE(x) STAND_IN_CHECK(!(x), "not " #x, )
#define EXPECT_EQ(a, b) STAND_IN_CHECK((a) == (b), #a " == " #b, )
#define EXPECT_GT(a, b) STAND_IN_CHECK((a) > (b), #a " > " #b, )
#define EXPECT_LE(a, b) STAND_IN_CHECK((a) <= (b), #a " <= " #b, )
#define EXPECT_NEAR(a, b, e) STAND_IN_CHECK(::testing::is_near(a, b, e), #a " near " #b, )
#define ASSERT_EQ(a, b) STAND_IN_CHECK((a) == (b), #a " == " #b, return )
#define ASSERT_NEAR(a, b, e) STAND_IN_CHECK(::testing::is_near(a, b, e), #a " near " #b, return )
#define EXPECT_THROW(statement, error) \
  STAND_IN_CHECK(                      \
      [&] {                            \
        try {                          \
          statement;                   \
        } catch (const error&) {       \
          return true;                 \
        } catch (...) {                \
        }                              \
        return false;                  \
      }(),                             \
      #statement " throws " #error, )
#define ADD_FAILURE() STAND_IN_CHECK(false, "", )
#define EXPECT_DEATH(statement, text) static_cast<void>([&] { statement; })  // is not called
#define GTEST_FLAG_SET(flag, value) static_cast<void>(0)
