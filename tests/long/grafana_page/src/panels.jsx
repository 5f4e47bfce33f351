// Every kind of panel that our boards use, drawn by the component that Grafana draws it with, where npm has it.
import { FieldType, getDisplayValueAlignmentFactors, getFieldDisplayName, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries, VizRepeater } from '@grafana/ui';

export function Drawn({ panel, data, theme, range, width, height }) {
  const Kind = KINDS[panel.type];
  if (!Kind) {
    throw new Error(`no component for a panel of type ${panel.type}`);
  }
  if (!data.some((frame) => frame.fields.some((field) => field.type !== FieldType.time && field.values.some((one) => one !== null)))) {
    return <Empty text={panel.fieldConfig.defaults.noValue} theme={theme} />;
  }
  return <Kind {...{ panel, data, theme, range, width, height }} />;
}

function Empty({ text, theme }) {
  const style = { color: theme.colors.text.secondary, display: 'flex', height: '100%', padding: 16 };
  return (
    <div data-empty style={{ ...style, alignItems: 'center', justifyContent: 'center', textAlign: 'center' }}>{text}</div>
  );
}

function Lines({ panel, data, range, width, height }) {
  const legend = { ...panel.options.legend, calcs: panel.options.legend.calcs ?? [] };
  return <TimeSeries frames={data} timeRange={range} timeZone="utc" {...{ width, height, legend }} />;
}

const displayed = (panel, data, theme) =>
  getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data,
    sparkline: panel.type === 'stat',
    timeZone: 'utc',
  });

function Numbers({ panel, data, theme, width, height }) {
  const { colorMode, graphMode, justifyMode, textMode } = panel.options;
  const values = displayed(panel, data, theme);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, alignmentFactors, width, height, count }) => (
        <BigValue
          value={value.display}
          sparkline={value.sparkline}
          {...{ colorMode, graphMode, justifyMode, textMode, alignmentFactors, count, width, height, theme }}
        />
      )}
      source={data}
      orientation={panel.options.orientation}
      autoGrid
      {...{ width, height }}
    />
  );
}

function Bars({ panel, data, theme, width, height }) {
  const values = displayed(panel, data, theme);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, alignmentFactors, orientation, width, height }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          displayMode={panel.options.displayMode}
          text={panel.options.text}
          itemSpacing={8}
          lcdCellWidth={8}
          showUnfilled={panel.options.showUnfilled}
          {...{ alignmentFactors, orientation, width, height, theme }}
        />
      )}
      source={data}
      orientation={panel.options.orientation}
      minVizHeight={16}
      maxVizHeight={80}
      {...{ width, height }}
    />
  );
}

function Listing({ panel, data, width, height }) {
  const { excludeByName = {}, indexByName = {}, renameByName = {} } = panel.transformations?.[0]?.options ?? {};
  const fields = data[0].fields
    .filter((field) => !excludeByName[field.name])
    .sort((a, b) => (indexByName[a.name] ?? 0) - (indexByName[b.name] ?? 0))
    .map((field) => ({ ...field, config: { ...field.config, displayName: renameByName[field.name] ?? field.name } }));
  return <Table data={{ ...data[0], fields }} enablePagination={false} {...{ width, height }} />;
}

/** Grafana's state timeline is in its core and not on npm: bands as plain boxes, with the panel's own mappings. */
function States({ data, theme, width, height }) {
  const row = Math.max(12, Math.min(28, Math.floor(height / data.length) - 4));
  return (
    <div style={{ height, overflow: 'hidden', width }}>
      {data.map((frame, at) => {
        const field = frame.fields.find((one) => one.type === FieldType.number);
        const said = field.values.map((value) => (value === null ? null : field.display(value)));
        return (
          <div key={at} style={{ display: 'flex', alignItems: 'center', height: row, marginBottom: 4 }}>
            <div style={{ fontSize: 12, overflow: 'hidden', textAlign: 'right', width: 220, paddingRight: 8, whiteSpace: 'nowrap' }}>
              {getFieldDisplayName(field, frame, data)}
            </div>
            <div style={{ display: 'flex', flex: 1, height: row }}>
              {said.map((one, i) => (
                <div key={i} title={one?.text} style={{ background: one?.color ?? theme.colors.background.secondary, flex: 1 }} />
              ))}
            </div>
          </div>
        );
      })}
    </div>
  );
}

const KINDS = { bargauge: Bars, 'state-timeline': States, stat: Numbers, table: Listing, timeseries: Lines };
