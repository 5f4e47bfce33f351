"""Every number that decides whether and how we advise, with the reason it has that value."""

from __future__ import annotations

WARM_UP_SHARE = 0.3
"""Share of the window's requests that only fills the modelled caches. Measured on recorded traces: counting
the cold part as well makes the hold-out error three times as large."""

SLICES = 20
"""Runs the measured part is cut into for resampling: fewer give ragged intervals, more make neighbouring
slices dependent, and resampling single requests is far too narrow."""

RESAMPLES = 400
"""Resampled histories per interval: the ends of a 95 % interval then rest on ten histories each."""

MIN_REQUESTS = 300
"""Ten requests in each measured slice; below that a slice's ratio is mostly noise."""

MIN_BLOCK_ACCESSES = 2_000
"""About a hundred block accesses a slice, the least for a ratio that is known to a few percent."""

MIN_COMPLETENESS_RATIO = 0.95
"""A lost record hides its own reuse and everybody's reuse of it, so the error in hit ratio can be twice
the share lost: at 5 % lost it is as large as the intervals we give."""

FULL_COMPLETENESS_RATIO = 0.999
"""Below this the loss is reported as a finding, although advice is still given."""

MIN_WARM_RATIO = 0.5
"""A size of which the warm-up filled less than half is judged mostly on a cache that was still filling."""

DRIFT_LATE_SLICES = 5
"""The last quarter of the measured part is compared with what came before it."""

DRIFT_PERMUTATIONS = 999
"""Random orders of the slices; the smallest p value is then 0.001."""

DRIFT_P_VALUE = 0.01
"""Slices of one workload are not quite independent: 0.05 would flag one stationary window in ten."""

DRIFT_SMALLEST_SHIFT = 0.03
"""A shift in hit ratio below 3 points changes no sizing, however certain it is."""

DRIFT_LARGEST_SHIFT = 0.10
"""Beyond 10 points the past does not say what the next hours are like: we abstain instead of widening."""

MOST_HOLDOUT_ERROR = 0.15
"""If the first half of the window misses the second half's hit ratio at the advised size by more, the
interval would be a third of the scale wide, and a size drawn from it a guess."""

MODEL_ALLOWANCE = 0.05
"""Share of prompt tokens by which the modelled and the observed hits may differ before we say so: running
requests pin blocks, generated tokens are cached, and the caches were not empty when the window began."""

MODEL_LARGEST_DISAGREEMENT = 0.15
"""Beyond this the model does not describe the deployment, and sizes drawn from it mean nothing."""

SMALLEST_SAVING = 0.10
"""A smaller size is advised only if it frees a tenth: a change restarts engines and empties L0 and L1."""

SMALLEST_GAIN = 0.005
"""A larger size is advised only if it adds half a point of hit ratio, for the same reason."""

TELLING_DIFFERENCE = 0.03
"""If two models of L1 differ by less in today's hit ratio, the records do not tell which one is right."""

SERVER_USABLE_RATIO = 0.7
"""Share of its memory that LMCache's server holds on average with its defaults: it frees a quarter of what is
there once 0.8 is passed. Taken where it reports its fill but was never seen to evict."""

SERVER_LEAST_RATIO = 6 / 7
"""What LMCache's server holds at any time, as a share of its mean: a round leaves 0.6 of its memory."""

ROUND_LEAST_FALL = 0.05
"""Share of its memory by which L1 falls between two readings after a round of freeing. A round frees four
times that, but some is filled again before the second reading; what goes chunk by chunk hardly shows."""

ROUND_LEAST_LEFT = 0.5
"""Share of what was there that a round leaves at least; a server that starts anew has nothing left."""

FEWEST_ROUNDS = 2
"""Rounds that are seen before any are believed: one may be a server that was cleared in part."""

STAGING_ROOM = 5
"""Times the most that is ever on its way through L1 at once. LMCache's server frees room only above a
watermark of 0.8 of its memory, so a load is sure of a fifth of it; without room a hit becomes a miss."""

POOL_ROOM = 1.1
"""Times the most that the pool was ever seen to hold: Curvine removes files by age or not at all, so a pool
smaller than what it came to hold would refuse new chunks instead of dropping the least useful."""

POOL_SIZE_DIFFERENCE = 0.1
"""Share of the configured size by which a pool's own may differ: file systems keep some, GB are not GiB."""

SERVERS_DIFFERENCE = 0.1
"""If a token takes a tenth more in one cache server than in another, they are of two models: servers of one
differ by chunks that are not whole."""

FEWEST_TELLING_CHUNKS = 32
"""Fewer chunks do not tell what a token takes in a server: those that are not whole weigh too much."""

ROUNDING_SHARE = 1 / 32
"""Sizes are rounded up to a power of two of bytes no larger than this share of them."""

GRID_SIZES = 48
"""Sizes a curve is computed at before it is refined around the one that is chosen."""

REFINED_SIZES = 32
"""Sizes between the two neighbours in the grid: the answer is within a fraction of a percent in size."""

MIN_FORECAST_SAMPLES = 40
"""Two readings a slice: fewer show no growth but their own steps."""

TELLING_FALL = 0.01
"""A pool whose use falls by a hundredth of its size between two readings makes room."""

MOST_UNSTEADINESS = 2.0
"""If one half of the readings grew twice as fast as the other, neither tells how it goes on."""

FORECAST_DAY_SECONDS = 0.9 * 24 * 3600.0
"""Below a day the readings do not show the day's rhythm, so no more is foretold than was seen."""

MOST_FORECAST_SPANS = 10.0
"""Beyond ten times what was seen, growth is a guess."""

COMBINED_SIZES = 12
"""Sizes of each tier that are combined with those of the others at first."""

ZOOMS = 2
"""Times that neighbours of the best combination are then looked at."""

ZOOMED_SIZES = 8
"""Sizes between the neighbours: twice that often, the answer is within what sizes are rounded to."""

TTFT_TIE = 0.01
"""Combinations whose TTFT is within a percent of the lowest are as fast; the cheapest of them is taken."""

SMALLEST_TTFT_GAIN = 0.02
"""A TTFT that is lower by less is not worth a restart, which costs many cold ones."""

MOST_ALTERNATIVES = 7
"""Points of the front that are written down: a person compares no more."""

ALTERNATIVE_TARGETS = (0.8, 0.9, 0.95, 0.99)
"""Targets shown beside the one asked for; beyond 0.99 a curve is flat and the size arbitrary."""

MIN_TTFT_RECORDS = 200
"""With 20 % noise the slopes are then known to 3 % (95 of 100 times to 12 %); with fewer they are not."""

MIN_TTFT_TIER_RECORDS = 30
"""Requests that loaded from a tier before its cost per token can be told from noise."""

MOST_TTFT_RECORDS = 5_000
"""More records make the fit slower and no better than the noise of the workload."""

MOST_TTFT_ERROR_RATIO = 0.5
"""If half of the requests are off by more than half, tokens do not explain TTFT here (queueing does)."""

SMALLEST_TTFT_SHARE = 0.01
"""A tier that would serve less than this share of tokens may lack a cost per token."""

REVERT_AFTER_SECONDS = 3600.0
"""How long a broken promise must last: L0 and L1 start empty after the change."""

FULL_TIER_RATIO = 0.98
"""A pool refuses new blocks while up to one block size is still free, so full is a little below 1."""

MIN_FULL_REQUESTS = 100
"""Requests since the pool has been full before their hits are compared: a handful proves nothing."""

MIN_FULL_SAMPLES = 5
"""Readings of a full pool in a row before anything is said about what a full pool does."""

SEED = 1
"""Seed of every resampling, so that the same evidence gives the same document."""

MOST_ROUTED_REQUESTS = 10_000
"""Requests of the stretch that routers are compared on: some 15 runs over it then take half a minute."""

MOST_ROUTED_ACCESSES = 6_000_000
"""Block accesses of it, for the same reason; fewer where more than 15 replicas take the memory."""

ROUTER_DRAWS = 3
"""Runs of a policy that draws (ties, places on a hash ring): the real router is one draw of many."""

SMALLEST_ROUTED_TTFT_GAIN = 0.05
"""A policy is changed only for 5 % of the mean TTFT: a router that restarts has forgotten what it knew."""

ALIKE_TTFT_RATIO = 0.02
"""Policies whose mean TTFT differs by less are equally fast: draws of one policy differ by as much."""

ASSUMED_TTFT_ERROR = 0.25
"""Error of the engine model where no TTFT was recorded to hold it against. Published tables are met within
20 % below the knee with constants of the same model and GPU; here these are assumed as well."""

LEAST_ROUTED_TTFT_ERROR = 0.15
"""What is foretold of another policy is never taken to be surer than this, however well today's is met: on
the testbed the ratio of two policies' mean TTFT was up to 11 % off where today's was met within 2 %."""

LEAST_ROUTED_HIT_ERROR = 0.02
"""The same for shares of prompt tokens: there each tier's share under the other policy was 2 points off."""

MOST_ROUTED_TTFT_ERROR = 0.5
"""If the engine model misses the recorded TTFT by more, what it says of another policy is not used."""

MONOPOLY_SHARE = 0.5
"""Share of requests behind one first chunk from which on `prefixaware` overloads one replica, however many
there are: half of the traffic is twice a fair share with four replicas."""

MONOPOLY_CONCENTRATION = 0.9
"""Share of those requests on one replica from which on the monopoly is there."""

SMALLEST_ROUTING_LOSS = 0.05
"""Share of prompt tokens that a router's picks must lose before it is said."""

ROUTING_RENEWAL_SECONDS = 1800.0
"""Age at which routers are compared anew: the comparison costs half a minute of a core, and its answer
changes with the traffic of an hour, not of a minute."""

MOST_WAITING_SHARE = 0.5
"""If more of the mean TTFT is spent waiting for a place, more cache or better routing hardly helps."""

MOST_REPLICAS_ADDED = 4
"""More replicas are tried one by one up to this many: beyond it the traffic would be another one."""

SMALLEST_MISS_SHARE = 0.01
"""A cause, or a step of more room, is named if it took or would have saved 1 % of what was computed."""
