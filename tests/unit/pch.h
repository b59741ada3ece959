// Precompiled for the unit tests: what nearly all of them include and is slow to parse.
#ifndef ULNET_TESTS_UNIT_PCH_H  // compiled by itself, where #pragma once is an error
#define ULNET_TESTS_UNIT_PCH_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#endif
