with peak as (
  select device, coalesce(event_index, -1) as event from usage
  order by requested_bytes desc, event_index nulls first limit 1
)
select category, module, sum(bytes) as bytes, count(*) as blocks
from allocations join peak using (device)
where coalesce(alloc_event, -1) <= event and coalesce(free_event, 1e18) > event
group by all order by bytes desc, module;
