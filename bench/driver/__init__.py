# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench does: build, run the programs of bench/ in turn, report."""
