// A table of any length: rows are created when they scroll into view.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Column<Row> {
  readonly key: string;
  readonly title: string;
  readonly right?: boolean;
  /** A CSS width; the one column without a width takes the rest. */
  readonly width?: string;
  /** Left out if space is short. */
  readonly spare?: boolean;
  readonly sortable?: boolean;
  cell(row: Row): ComponentChildren;
}

interface Props<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly total: number;
  /** The row at an index; undefined while loading. */
  readonly row: (index: number) => Row | undefined;
  readonly rowHeight: number;
  readonly sort?: { readonly key: string; readonly descending: boolean };
  readonly onSort?: (key: string) => void;
  readonly chosen?: (row: Row) => boolean;
  readonly onChoose?: (row: Row) => void;
  readonly attributes?: (row: Row) => Record<string, string | number>;
  readonly onRange?: (first: number, last: number) => void;
  readonly empty?: string;
  /** The index of a row to scroll to when it changes. */
  readonly shown?: number | undefined;
}

/** The number of rows above and below the visible ones that are there as well. */
const MORE = 8;

/** The rows [first, end) that are there, given the rows' height. */
function useRows(total: number, rowHeight: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [fit, setFit] = useState(0);
  useLayoutEffect(() => {
    const box = scroller.current!;
    const look = () => {
      setTop(Math.floor(box.scrollTop / rowHeight));
      setFit(Math.ceil(box.clientHeight / rowHeight));
    };
    const stop = new AbortController();
    box.addEventListener('scroll', look, { passive: true, signal: stop.signal });
    const resized = new ResizeObserver(look);
    resized.observe(box);
    look();
    return () => {
      stop.abort();
      resized.disconnect();
    };
  }, [rowHeight]);
  const first = Math.max(Math.min(top, total - fit) - MORE, 0);
  /** Scrolls to a row that isn't visible, to the middle or only as far as necessary. */
  const reveal = (row: number, middle: boolean) => {
    const box = scroller.current!;
    // The header stays on top, and the window may end above the table's end.
    const head = box.querySelector('thead')!.offsetHeight;
    const below = innerHeight - box.getBoundingClientRect().top - head;
    const all = box.clientHeight - head;
    const room = below < rowHeight ? all : Math.min(all, below);
    const [most, least] = [row * rowHeight, (row + 1) * rowHeight - room];
    const { scrollTop } = box;
    if (scrollTop > most || scrollTop < least) {
      box.scrollTop = middle ? (most + least) / 2 : scrollTop > most ? most : least;
    }
  };
  return { scroller, first, end: Math.min(first + fit + 2 * MORE, total), reveal };
}

function classOf<Row>({ right, spare }: Column<Row>): string {
  return [right ? 'right' : '', spare ? 'spare' : ''].join(' ').trim();
}

export function Table<Row>(props: Props<Row>) {
  const { columns, total, row, rowHeight, sort, chosen } = props;
  const { scroller, first, end, reveal } = useRows(total, rowHeight);
  useEffect(() => props.onRange?.(first, Math.max(end - 1, 0)), [first, end, total]);
  const { shown = -1 } = props;
  useEffect(() => {
    if (shown >= 0) reveal(shown, true);
  }, [shown, row(shown)]);
  const move = (event: KeyboardEvent, index: number) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const to = event.key === 'Home' ? 0 : event.key === 'End' ? total - 1 : index + (step ?? 0);
    if (to === index && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === 'Enter' || event.key === ' ') {
      const one = row(index);
      if (one) props.onChoose?.(one);
      return;
    }
    const target = Math.min(Math.max(to, 0), total - 1);
    reveal(target, false);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${target}"]`)?.focus(),
    );
  };
  const above = first * rowHeight;
  const below = (total - end) * rowHeight;
  return (
    <div class="scroller" ref={scroller}>
      <table class="rows" aria-label={props.label} aria-rowcount={total + 1}>
        <colgroup>
          {columns.map((one) => (
            <col
              key={one.key}
              class={one.spare ? 'spare' : ''}
              style={one.width ? { width: one.width } : {}}
            />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((one) => (
              <th
                key={one.key}
                scope="col"
                class={classOf(one)}
                aria-sort={
                  sort?.key === one.key ? (sort.descending ? 'descending' : 'ascending') : undefined
                }
              >
                {one.sortable ? (
                  <button type="button" onClick={() => props.onSort?.(one.key)}>
                    {one.title}
                    {sort?.key === one.key ? (sort.descending ? ' ▾' : ' ▴') : ''}
                  </button>
                ) : (
                  one.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody class="own-keys">
          {above > 0 && <tr class="room" style={{ height: `${above}px` }} />}
          {Array.from({ length: Math.max(end - first, 0) }, (_, i) => {
            const index = first + i;
            const one = row(index);
            return (
              <tr
                key={index}
                aria-rowindex={index + 2}
                data-index={index}
                tabIndex={index === first ? 0 : -1}
                class={one && chosen?.(one) ? 'chosen' : ''}
                style={{ height: `${rowHeight}px` }}
                onClick={() => one && props.onChoose?.(one)}
                onKeyDown={(event) => move(event, index)}
                {...(one ? props.attributes?.(one) : {})}
              >
                {columns.map((column) => (
                  <td key={column.key} class={classOf(column)}>
                    {one ? column.cell(one) : '…'}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <tr class="room" style={{ height: `${below}px` }} />}
        </tbody>
      </table>
      {total === 0 && <p class="dim empty">{props.empty ?? 'nothing'}</p>}
    </div>
  );
}
