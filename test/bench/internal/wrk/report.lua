-- Given to wrk: sends `depth` requests in one write and prints the figures as
-- one line of JSON. No `request` function is defined, so wrk renders the bytes
-- once and the script costs nothing per request.
function init(args)
   local depth = tonumber(args[1]) or 1
   local format = wrk.format
   wrk.format = function(...) return string.rep(format(...), depth) end
end

function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format(
      '\nleafbench {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      e.connect, e.read, e.write, e.timeout, e.status))
end
