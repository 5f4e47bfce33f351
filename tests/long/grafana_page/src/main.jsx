// One board's classic JSON on Grafana's grid: ?board=FILE&prometheus=URL&minutes=N&scrape=S&theme=dark|light
import { createTheme, dateTime, EventBusSrv, ThemeContext } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { Component, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { withOptions } from './options.js';
import { Drawn } from './panels.jsx';
import { frames } from './queries.js';

const GRID = { columns: 24, row: 30, gap: 8 };
const asked = new URLSearchParams(location.search);
const width = document.documentElement.clientWidth - 2 * GRID.gap;
const theme = createTheme({ colors: { mode: asked.get('theme') ?? 'light' } });
const scrapeSeconds = Number(asked.get('scrape') ?? 15);
const to = Math.floor(Date.now() / 1000 / scrapeSeconds) * scrapeSeconds;
const from = to - 60 * Number(asked.get('minutes') ?? 60);
const range = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: 'now-1h', to: 'now' } };
const eventBus = new EventBusSrv();
window.told = { panels: [], errors: [] };

class Guard extends Component {
  state = {};
  static getDerivedStateFromError = (error) => ({ error });
  componentDidCatch(error) {
    window.told.errors.push(`${this.props.title}: ${error.message}`);
  }
  render() {
    return this.state.error ? <b>{this.state.error.message}</b> : this.props.children;
  }
}

function Panel({ panel, chosen }) {
  const [data, setData] = useState(null);
  const place = panel.gridPos;
  const cell = (width + GRID.gap) / GRID.columns;
  const size = { width: place.w * cell - GRID.gap, height: place.h * (GRID.row + GRID.gap) - GRID.gap };
  useEffect(() => {
    const stepSeconds = Math.max(scrapeSeconds, Math.round((to - from) / 240));
    frames(panel, { prometheus: asked.get('prometheus'), range, stepSeconds, scrapeSeconds, chosen })
      .then((found) => {
        window.told.panels.push({ title: panel.title, series: found.length });
        setData(withOptions(found, panel, theme, chosen));
      })
      .catch((error) => {
        window.told.errors.push(`${panel.title}: ${error.message}`);
        setData([]);
      });
  }, [panel]);
  return (
    <div style={{ position: 'absolute', left: (place.x ?? 0) * cell, top: place.y * (GRID.row + GRID.gap), ...size }}>
      <PanelChrome title={panel.title} description={panel.description} {...size}>
        {(innerWidth, innerHeight) =>
          data === null ? null : (
            <Guard title={panel.title}>
              <Drawn {...{ panel, data, theme, range }} width={innerWidth} height={innerHeight} />
            </Guard>
          )
        }
      </PanelChrome>
    </div>
  );
}

function Row({ panel }) {
  const style = { color: theme.colors.text.primary, fontWeight: 500, position: 'absolute', padding: '6px 4px' };
  return <div style={{ ...style, top: panel.gridPos.y * (GRID.row + GRID.gap) }}>{`${panel.collapsed ? '›' : '⌄'} ${panel.title}`}</div>;
}

/** Panels and rows from top to bottom; a closed row is opened, for what it holds is to be seen, too. */
function placed(board) {
  let shift = 0;
  return board.panels.flatMap((panel) => {
    const here = { ...panel, gridPos: { ...panel.gridPos, y: (panel.gridPos.y ?? 0) + shift } };
    const held = (panel.panels ?? []).map((one) => ({ ...one, gridPos: { ...one.gridPos, y: here.gridPos.y + 1 } }));
    shift += held.length ? Math.max(...held.map((one) => one.gridPos.h)) : 0;
    return [here, ...held];
  });
}

function Board({ board }) {
  const chosen = Object.fromEntries(
    board.templating.list.filter((one) => one.type !== 'datasource').map((one) => [one.name, one.allValue ?? '.*'])
  );
  const panels = placed(board);
  const rows = Math.max(...panels.map((panel) => panel.gridPos.y + panel.gridPos.h));
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventBus, eventsScope: 'board', canAddAnnotations: () => false }}>
        <div style={{ background: theme.colors.background.canvas, minHeight: '100vh', padding: GRID.gap, fontFamily: 'sans-serif' }}>
          <h2 style={{ margin: 0 }}>{board.title}</h2>
          <div style={{ color: theme.colors.text.secondary, padding: '4px 0' }}>{board.description}</div>
          <div style={{ color: theme.colors.text.secondary, padding: '4px 0' }}>
            {board.templating.list.map((one) => `${one.label}: ${one.current?.text ?? 'Prometheus'}`).join('  ·  ')}
          </div>
          <div style={{ position: 'relative', height: rows * (GRID.row + GRID.gap) }}>
            {panels.map((panel) =>
              panel.type === 'row' ? <Row key={panel.id} panel={panel} /> : <Panel key={panel.id} {...{ panel, chosen }} />
            )}
          </div>
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
}

await initPluginTranslations('tierscope');
const board = await (await fetch(asked.get('board'))).json();
const count = placed(board).filter((panel) => panel.type !== 'row').length;
window.settled = () => window.told.panels.length + window.told.errors.length >= count;
document.title = board.title;
createRoot(document.getElementById('root')).render(<Board board={board} />);
