#!/usr/bin/env python3
"""Tests of tidy.py: each rule on a small tree that keeps it and on one that breaks it."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import cxx
import tidy

CLEAN = {
    "lnet/README.md": "# lnet\n",
    "lnet/wire/README.md": "# wire\n",
    "lnet/nid.h": "#pragma once\nnamespace ulnet { struct Nid {}; }\n",
    "lnet/lnet.h": '#pragma once\n#include "lnet/nid.h"\nnamespace ulnet { class Node; }\n',
    "lnet/wire/hdr.h": '#pragma once\n#include "lnet/nid.h"\n',
    "cpt/README.md": "# cpt\n",
    "cpt/sched.h": "#pragma once\n",
    "selftest/README.md": "# selftest\n",
    "selftest/rpc.cc": '#include <vector>\n#include "lnet/lnet.h"\n#include "cpt/sched.h"\n',
}


def run(files, *options):
    """(exit code, findings, sum line) of tidy on a clean tree with these files added."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**CLEAN, **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = tidy.main(["--root", folder, *options])
    *findings, total = out.getvalue().splitlines()
    return code, findings, total


class Rules(unittest.TestCase):
    def passes(self, files, *options):
        code, findings, total = run(files, *options)
        self.assertEqual((code, findings), (0, []))
        self.assertRegex(total, r"^\d+ passed, 0 failed, 0 skipped$")

    def fails(self, files, *expected):
        code, findings, total = run(files)
        self.assertEqual(code, 1)
        self.assertEqual(len(findings), len(expected), findings)
        for finding, wanted in zip(findings, expected):
            self.assertTrue(finding.startswith(wanted), f"{finding} instead of {wanted}")
        self.assertRegex(total, r"^\d+ passed, 1 failed, 0 skipped$")

    def test_clean_tree(self):
        self.passes({})

    def test_include_of_internals(self):
        self.fails({"lnet/msg.h": "", "selftest/a.cc": '\n#include "lnet/msg.h"\n'},
                   "selftest/a.cc:2: includes: selftest/ may not include")

    def test_include_upwards(self):
        self.fails({"cpt/a.cc": '#include "lnet/nid.h"\n'}, "cpt/a.cc:1: includes:")
        self.fails({"lnet/wire/a.cc": '#include "lnet/lnet.h"\n'}, "lnet/wire/a.cc:1: includes:")

    def test_include_of_another_driver(self):
        files = {"lnds/lo/README.md": "", "lnds/lo/lo.h": "", "lnds/sock/README.md": "",
                 "lnds/sock/own.h": ""}
        self.passes({**files, "lnds/sock/a.cc": '#include "lnds/sock/own.h"\n'})
        self.fails({**files, "lnds/sock/a.cc": '#include "lnds/lo/lo.h"\n'},
                   "lnds/sock/a.cc:1: includes: lnds/ may not")

    def test_include_of_tests(self):
        files = {"tests/unit/README.md": "", "tests/unit/help.h": ""}
        self.passes({**files, "tests/unit/a.cc": '#include "help.h"\n#include "lnet/lnet.h"\n'})
        self.fails({**files, "lnet/a.cc": '#include "tests/unit/help.h"\n'},
                   "lnet/a.cc:1: includes:")

    def test_include_that_is_no_file(self):
        self.fails({"selftest/a.cc": '#include "rpc.h"\n'}, "selftest/a.cc:1: includes:")

    def test_heavy_header(self):
        self.passes({"lnet/a.cc": "#include <nlohmann/json.hpp>\n",
                     "lnet/a.h": "#include <nlohmann/json_fwd.hpp>\n"})
        self.fails({"lnet/a.h": "#include <spdlog/spdlog.h>\n"}, "lnet/a.h:1: heavy:")

    def test_banned_words(self):
        for text in ("auto t = std::chrono::steady_clock::now();", "usleep(3);", "int i = rand();",
                     "void f() { std::thread t; }", "void f() { sleep (1); }",
                     "void f() { std::random_device d; }", "std::this_thread::sleep_for(d);"):
            code, findings, _ = run({"lnet/a.cc": f"void g() {{ {text} }}\n"})
            self.assertEqual(code, 1, text)
            self.assertTrue(findings[0].startswith("lnet/a.cc:1: words:"), findings)
        self.passes({"cpt/a.cc": "void f() { std::thread t; }\n"})
        self.passes({"lnet/a.cc": '// sleep(1)\n/* rand( */ const char* a = "usleep"; '
                                  "void asleep(int); void operand(int);\n"})

    def test_unfinished(self):
        self.fails({"lnet/a.cc": "// TO" "DO: more\n"}, "lnet/a.cc:1: unfinished:")

    def test_globals(self):
        for text in ("int count = 0;", "static std::atomic<int> a{0};", "std::mutex lock;",
                     "namespace x { namespace { Foo* cache; } }", "void f() {\n static int n; }",
                     "struct S { static Foo* all; };", "thread_local int depth = 0;",
                     "std::function<void()> hook;"):
            code, findings, _ = run({"lnet/a.cc": text + "\n"})
            self.assertEqual(code, 1, text)
            self.assertIn(": globals: state without an owner", findings[0])
        for text in ("constexpr int a = 3;", "static const char b[] = {1, 2};", "int f();",
                     "template <class T> constexpr bool c<T> = true;", "struct S;",
                     "enum E { x };",
                     "static void g(int x = 0) { int local = 1; }", "using A = int;",
                     "S::S(S&&) noexcept = default;",
                     "struct S { int member = 0; S() = default; };",
                     "S::S(int x) : a_{x}, b_(2), c_{} { int local; }",
                     "void f(A a = {}, D most = D::max());", "extern const int e;",
                     "auto operator<=>(S, S) = default;", "static Foo make();"):
            self.assertEqual(run({"lnet/a.cc": text + "\n"})[:2], (0, []), text)
        self.passes({"cpt/a.cc": "thread_local int depth = 0;\n"})

    def test_sizes(self):
        self.fails({"lnet/a.cc": "\n" * 801}, "lnet/a.cc:801: sizes: 801 lines, at most 800")
        self.fails({"lnet/a.h": "\n" * 301}, "lnet/a.h:301: sizes:")
        code, findings, _ = run({"lnet/a.cc": "\n" * 501})
        self.assertEqual(code, 0)
        self.assertTrue(findings[0].startswith("lnet/a.cc:501: warning: sizes:"))

    def test_functions(self):
        body = "void f(int x) {\n" + "    if (x) { x = 1; }\n" * 68 + "}\n"
        self.passes({"lnet/a.cc": body})
        longer = body.replace("{\n", "{\n    g();\n", 1)
        self.fails({"lnet/a.cc": "namespace n {\n" + longer + "}\n"},
                   "lnet/a.cc:2: functions: a function of 71 lines")
        constructor = "A::A(int x)\n    : a_{x},\n      b_(1) {\n" + "    g();\n" * 70 + "}\n"
        self.fails({"lnet/a.cc": constructor}, "lnet/a.cc:1: functions:")

    def test_columns(self):
        self.passes({"lnet/a.cc": "//" + "x" * 98 + "\n", "lnet/README.md": "x" * 200})
        self.fails({"lnet/a.cc": "\n//" + "x" * 99 + "\n"}, "lnet/a.cc:2: columns: 101 columns")

    def test_readmes(self):
        self.fails({"lnds/sim/a.cc": ""}, "lnds/sim:1: readmes: no README.md")
        self.fails({"lnet/README.md": "\n" * 41}, "lnet/README.md:41: readmes: 41 lines")

    def test_machine_paths(self):
        self.fails({"docs/a.md": "\nsee /wor" "k/main\n"}, "docs/a.md:2: paths:")
        self.fails({"lnet/a.cc": "// /hom" "e/me\n"}, "lnet/a.cc:1: paths:")
        self.passes({"docs/a.md": "a/work /homework /tmp/x-XXXXXX\n"})

    def test_fuzzed(self):
        header = {"lnet/wire/x.h": "#pragma once\nint decode_x(int);\n"}
        self.fails(header, "lnet/wire/x.h:2: fuzzed: decode_x has no fuzz target")
        self.passes({**header, "tests/fuzz/README.md": "",
                     "tests/fuzz/fuzz_x.cc": '#include "lnet/wire/x.h"\n'})

    def test_rows(self):
        rows = {"tests/tidy/rows.txt": "# reports\n3.2  one\n3.14  two\n",
                "tests/net/test_a.py": "def row_3_2_speed():\n    pass\n"}
        test = {"tests/unit/a.cc": "// TEST(Rows, Row3_4_Commented)\nTEST(Rows, Row3_14_Tos) {}\n"}
        self.passes({**rows, **test, "tests/README.md": "", "tests/unit/README.md": ""})
        self.fails(rows, "tests/tidy/rows.txt:3: rows: no test is named by row 3.14")
        self.fails({"tests/net/test_a.py": "\n" + rows["tests/net/test_a.py"]},
                   "tests/net/test_a.py:2: rows: row 3.2 is not in")

    def test_headers_alone(self):
        self.passes({}, "--headers")
        code, findings, _ = run({"lnet/b.h": "#pragma once\nstd::vector<int> f();\n"}, "--headers")
        self.assertEqual(code, 1)
        self.assertTrue(findings[0].startswith("lnet/b.h:1: headers: does not compile alone"))
        # Included twice: only a guard makes this pass.
        self.assertEqual(run({"lnet/b.h": "struct B {};\n"}, "--headers")[0], 1)

    def test_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(tidy.main(["--root", folder]), 2)


class HeaderCache(unittest.TestCase):
    def test_only_what_changed_is_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"a.h": "#pragma once\n", "b.h": '#pragma once\n#include "a.h"\n',
                     "c.h": "#pragma once\n"}
            for name, text in texts.items():
                (root / name).write_text(text)
            compiled = []

            def check():
                compiled.clear()
                headers = tidy.Headers(root, "g++")
                original = headers.compile
                headers.compile = lambda path: compiled.append(path) or original(path)
                found = list(headers.check(tidy.read_tree(root)))
                return sorted(compiled), found

            self.assertEqual(check(), (["a.h", "b.h", "c.h"], []))
            self.assertEqual(check(), ([], []))
            (root / "a.h").write_text("#pragma once\nint a();\n")
            self.assertEqual(check(), (["a.h", "b.h"], []))  # b.h includes it
            (root / "c.h").write_text("#pragma once\nbroken\n")
            self.assertEqual(len(check()[1]), 1)
            self.assertEqual(check()[0], ["c.h"], "what failed is tried again")


class Reading(unittest.TestCase):
    def test_literals(self):
        text = cxx.without_literals('a("x // y", \'"\', 1\'000, R"(} /*)") // c\n/* d\ne */ f')
        self.assertEqual(text, 'a("", \'0\', 1\'000, "")  \n\n f')
        self.assertEqual(text.count("\n"), 2)

    def test_functions_in_scopes(self):
        code = ("namespace n {\nstruct S {\n    int f() { return 1; }\n};\n"
                "template <class T>\nT g(T x) {\n    auto l = [] { return 2; };\n    return x;\n}\n"
                "int table[] = {1, 2};\n}\n")
        functions = cxx.read_scopes(code)[1]
        self.assertEqual([(f.first_line, f.last_line) for f in functions], [(3, 3), (5, 9)])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or skipped else 0


if __name__ == "__main__":
    sys.exit(main())
