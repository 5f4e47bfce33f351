"""The questions boards ask, as PromQL, by name and subject.

Two rules hold everywhere. A ratio is a ratio of sums, never a sum or an average of ratios over
engines. Where nothing happened there is nothing: a divisor of 0 makes a series absent, not NaN or 0.

A shared L2 pool is read by every exporter whose node mounts it, so its gauges arrive once an exporter
and are taken once (`max by (cluster, holder)`); counters are of what one exporter's own sources did and
add up. Names are names in a cluster, so what is grouped by one is grouped by cluster, too; `dashboards/lint`
refuses the rest.
"""
