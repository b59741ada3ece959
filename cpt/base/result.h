// Status and Result: errors as values, in the language of LNet, FUSE and POSIX (a negative errno).
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "cpt/base/check.h"

namespace ulnet {

// 0, or a negative errno.
class [[nodiscard]] Status {
 public:
    constexpr Status() = default;
    constexpr explicit Status(int negative_errno) : code_(negative_errno) {}
    constexpr bool ok() const { return code_ == 0; }
    constexpr int code() const { return code_; }
    // "Connection timed out" and the like; "Success" when ok.
    const char* text() const { return std::strerror(-code_); }
    friend constexpr bool operator==(Status, Status) = default;

 private:
    int code_ = 0;
};
constexpr Status ok_status{};

// A Status that carries the sentence shown to the user: it names the key, the value and what is
// allowed. For configuration and control only; nothing hot makes one.
struct [[nodiscard]] Error {
    Status status;
    std::string text;
    bool ok() const { return status.ok(); }
};

// A value, or the Status that says why there is none.
template <class T> class [[nodiscard]] Result {
 public:
    Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
    Result(Status status) : status_(status) {      // NOLINT: implicit on purpose
        CHECK(!status.ok());
    }
    bool ok() const { return value_.has_value(); }
    Status status() const { return status_; }
    T& operator*() {
        CHECK(value_.has_value());
        return *value_;
    }
    const T& operator*() const {
        CHECK(value_.has_value());
        return *value_;
    }
    T* operator->() { return &**this; }
    const T* operator->() const { return &**this; }

 private:
    std::optional<T> value_;
    Status status_;
};

}  // namespace ulnet
