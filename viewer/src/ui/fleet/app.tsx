// A fleet's page: facts about all ranks, the picture of ranks by time, the selected rank, a table.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { ORDERS, type Order } from '../../core/fleet.js';
import { Buttons } from '../buttons.js';
import { Help } from '../help.js';
import { listen } from '../listening.js';
import { Separator, sizesOf } from '../panes.js';
import { Blocks } from '../report.js';
import { Details } from './details.js';
import { HeatLegend, HeatMap } from './heat.js';
import { keysOf } from './keys.js';
import { List } from './list.js';
import { COLOURS, type Colouring, change, state, TABS } from './state.js';
import { rowsTitle } from './words.js';
import { useWorld, type World, WorldContext } from './world.js';

const ORDER_NAMES: Record<Exclude<Order, 'rank'>, string> = {
  peak: 'highest peak first',
  alike: 'similar ranks together',
  host: 'host',
};
const COLOUR_NAMES: Record<Colouring, string> = {
  bytes: 'bytes',
  median: 'vs. median',
};

function Bar({ showHelp }: { showHelp: () => void }) {
  const { page } = useWorld();
  const { order, colour } = state.value;
  return (
    <header class="bar">
      <h1 title={page.title}>
        <span class="brand">memreplay</span> <span class="file">{page.title}</span>
      </h1>
      <div class="fields">
        <label class="field">
          rows by{' '}
          <select
            value={order}
            onChange={(event) => change({ order: event.currentTarget.value as Order })}
          >
            {ORDERS.map((one) => (
              <option key={one} value={one}>
                {one === 'rank' ? page.noun : ORDER_NAMES[one]}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          colours{' '}
          <select
            value={colour}
            onChange={(event) => change({ colour: event.currentTarget.value as Colouring })}
          >
            {COLOURS.map((one) => (
              <option key={one} value={one}>
                {COLOUR_NAMES[one]}
              </option>
            ))}
          </select>
        </label>
        <HeatLegend />
      </div>
      <Buttons showHelp={showHelp} />
    </header>
  );
}

function Tabs() {
  const { page } = useWorld();
  const { tab } = state.value;
  return (
    <section class="below">
      <div class="tabs" role="tablist">
        {TABS.map((one) => (
          <button
            key={one}
            type="button"
            role="tab"
            id={`tab-${one}`}
            aria-selected={one === tab}
            aria-controls="tab-panel"
            onClick={() => change({ tab: one })}
          >
            {one === 'ranks' ? rowsTitle(page) : 'Report'}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`} class="tab-panel">
        {tab === 'report' ? <Blocks blocks={page.report} /> : <List />}
      </div>
    </section>
  );
}

export function FleetApp({ world }: { world: World }) {
  const { page } = world;
  const help = useSignal(false);
  const showHelp = () => {
    help.value = true;
  };
  const keys = useMemo(() => keysOf(showHelp), []);
  useEffect(() => listen(keys, () => (help.value ? null : world)), [world]);
  return (
    <WorldContext.Provider value={world}>
      <Bar showHelp={showHelp} />
      <section class="headline">
        <p class="verdict">
          <span data-what="verdict">{page.headline}</span>
          {page.doubt && <span class="warning">{page.doubt}</span>}
        </p>
      </section>
      <div class="middle fleet" style={sizesOf(state.value)}>
        <div class="stage">
          <HeatMap />
          <Tabs />
        </div>
        <Separator kind="side" value={state.value.side} change={(side) => change({ side })} />
        <aside class="side">
          <Details />
        </aside>
      </div>
      {help.value && (
        <Help keys={keys} close={() => (help.value = false)}>
          <dt>click</dt>
          <dd>selects a {page.noun}; in the picture, also a column</dd>
          <dt>double-click</dt>
          <dd>in the picture: opens the {page.noun}'s own page, as a click on its name does</dd>
        </Help>
      )}
    </WorldContext.Provider>
  );
}
