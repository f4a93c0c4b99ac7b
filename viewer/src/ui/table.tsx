// A table of any length: rows are created when they scroll into view.

import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from '@tanstack/virtual-core';
import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useMemo, useReducer, useRef } from 'preact/hooks';

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

function useVirtual(scroller: RefObject<HTMLDivElement | null>, total: number, rowHeight: number) {
  const [, again] = useReducer((n: number) => n + 1, 0);
  const options = {
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
    // The header covers as much of the visible part.
    scrollPaddingEnd: scroller.current?.querySelector('thead')?.offsetHeight ?? rowHeight,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => again(0),
  };
  const virtual = useMemo(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(options), []);
  virtual.setOptions(options);
  useEffect(() => virtual._didMount(), []);
  useEffect(() => virtual._willUpdate());
  useEffect(() => virtual.measure(), [rowHeight]);
  return virtual;
}

function classOf<Row>({ right, spare }: Column<Row>): string {
  return [right ? 'right' : '', spare ? 'spare' : ''].join(' ').trim();
}

export function Table<Row>(props: Props<Row>) {
  const { columns, total, row, rowHeight, sort, chosen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual(scroller, total, rowHeight);
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => props.onRange?.(first, last), [first, last, total]);
  const { shown = -1 } = props;
  useEffect(() => {
    if (shown >= 0) virtual.scrollToIndex(shown, { align: 'auto' });
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
    virtual.scrollToIndex(target);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${target}"]`)?.focus(),
    );
  };
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items[items.length - 1]?.end ?? 0);
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
          {items.map((item) => {
            const one = row(item.index);
            return (
              <tr
                key={item.key}
                aria-rowindex={item.index + 2}
                data-index={item.index}
                tabIndex={item.index === first ? 0 : -1}
                class={one && chosen?.(one) ? 'chosen' : ''}
                style={{ height: `${rowHeight}px` }}
                onClick={() => one && props.onChoose?.(one)}
                onKeyDown={(event) => move(event, item.index)}
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
