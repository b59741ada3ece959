// Reader of the golden data; see golden.h.
#include "tests/golden/golden.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cpt/base/check.h"

namespace ulnet::golden {

// An empty function: for_each recognises it and counts the record as someone else's.
const Handler elsewhere;

std::vector<nlohmann::json> load(std::string_view file) {
    const std::string path = std::string(ULNET_GOLDEN_DIR) + "/" + std::string(file);
    std::ifstream in(path);
    std::vector<nlohmann::json> records;
    std::string line;
    while (std::getline(in, line)) {
        if (line.empty()) continue;
        records.push_back(nlohmann::json::parse(line, nullptr, false));
        if (records.back().is_discarded()) {
            ADD_FAILURE() << path << ": line " << records.size() << " is not JSON";
            std::abort();
        }
    }
    if (records.empty()) {
        ADD_FAILURE() << path << ": missing or empty";
        std::abort();
    }
    return records;
}

std::size_t for_each(std::string_view file, std::string_view key, const Handlers& handlers) {
    std::size_t used = 0;
    std::size_t line = 0;
    for (const nlohmann::json& record : load(file)) {
        ++line;
        SCOPED_TRACE(std::string(file) + ":" + std::to_string(line) + " " + text(record, "name"));
        const auto found = handlers.find(text(record, key));
        if (found == handlers.end()) {
            ADD_FAILURE() << "no handler for " << key << " \"" << text(record, key) << "\"";
        } else if (found->second) {
            found->second(record);
            ++used;
        }
    }
    return used;
}

std::vector<std::byte> unhex(std::string_view digits) {
    const auto value = [](char digit) {
        constexpr std::string_view all = "0123456789abcdef";
        const std::size_t at = all.find(digit);
        CHECK(at != std::string_view::npos);
        return static_cast<unsigned>(at);
    };
    CHECK(digits.size() % 2 == 0);
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(value(digits[i]) << 4 | value(digits[i + 1])));
    }
    return bytes;
}

std::string hex(std::span<const std::byte> bytes) {
    std::string digits;
    for (const std::byte byte : bytes) {
        constexpr std::string_view all = "0123456789abcdef";
        digits += all[static_cast<unsigned>(byte) >> 4];
        digits += all[static_cast<unsigned>(byte) & 15];
    }
    return digits;
}

u64 number(const nlohmann::json& value) {
    if (value.is_string()) {
        const auto& digits = value.get_ref<const std::string&>();
        CHECK(digits.starts_with("0x"));
        return std::strtoull(digits.c_str(), nullptr, 16);
    }
    CHECK(value.is_number_integer());
    return value.is_number_unsigned() ? value.get<u64>() : static_cast<u64>(value.get<i64>());
}

std::string text(const nlohmann::json& record, std::string_view key) {
    const auto found = record.find(key);
    return found == record.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

}  // namespace ulnet::golden
