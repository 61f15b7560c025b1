# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for run_numpy_suite.py: hearth's allocator in the context that tests run in, and a record of
what came out.

HEARTH_SUITE_HANDLER has the options of hearth.numpy_allocator() as JSON, null for NumPy's own allocator;
HEARTH_SUITE_RECORD names the file that the record goes to.
"""

import gc
import json
import os


class Record:
    def __init__(self):
        self.outcomes = {}  # of each test, by its id
        self.elsewhere = 0  # tests that did not run under the allocator
        options = json.loads(os.environ["HEARTH_SUITE_HANDLER"])
        self.allocator = None
        if options is not None:
            import hearth

            self.hearth = hearth
            self.allocator = hearth.numpy_allocator(**options)
            # Not only for the tests: what modules make when they are imported is ours as well.
            hearth.install_numpy(self.allocator)

    def pytest_runtest_call(self, item):
        if self.allocator is not None and self.hearth.numpy_handler() != "hearth":
            self.elsewhere += 1

    def pytest_runtest_logreport(self, report):
        outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        if report.when == "call" or (report.when == "setup" and outcome != "passed") or outcome == "failed":
            self.outcomes[report.nodeid] = outcome

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "failed"

    def pytest_sessionfinish(self):
        record = {"outcomes": self.outcomes, "elsewhere": self.elsewhere}
        if self.allocator is not None:
            gc.collect()
            record["stats"] = self.allocator.stats()._asdict()
        with open(os.environ["HEARTH_SUITE_RECORD"], "w") as file:
            json.dump(record, file)


def pytest_configure(config):
    config.pluginmanager.register(Record(), "hearth-record")
