// What a panel asks, asked of Prometheus, as Grafana's data frames.
import { FieldType, toDataFrame } from '@grafana/data';

/** Grafana's own: at least four scrapes and the step more. `chosen` are the reader's choices by variable. */
export function filledIn(text, chosen, stepSeconds, scrapeSeconds) {
  const window = `${Math.max(stepSeconds + scrapeSeconds, 4 * scrapeSeconds)}s`;
  return text
    .replaceAll('$__rate_interval', window)
    .replace(/\$\{?([a-z_]\w*)\}?/g, (whole, name) => chosen[name] ?? whole);
}

async function ask(prometheus, path, asked) {
  const answer = await (await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(asked)}`)).json();
  if (answer.status !== 'success') {
    throw new Error(`${answer.error}: ${asked.query}`);
  }
  return answer.data.result;
}

export const legend = (target, labels) => {
  if (target.legendFormat && target.legendFormat !== '__auto') {
    return target.legendFormat.replace(/{{\s*(\w+)\s*}}/g, (_, name) => labels[name] ?? '');
  }
  const told = Object.entries(labels).filter(([name]) => name !== '__name__');
  return `{${told.map(([name, value]) => `${name}="${value}"`).join(', ')}}`;
};

/** The frames of a panel: one a series, or one table where the panel wants a table. */
export async function frames(panel, { prometheus, range, stepSeconds, scrapeSeconds, chosen }) {
  const found = await Promise.all(
    panel.targets.map(async (target) => {
      const query = filledIn(target.expr, chosen, stepSeconds, scrapeSeconds);
      const [start, end] = [range.from.valueOf() / 1000, range.to.valueOf() / 1000];
      const series = target.instant
        ? await ask(prometheus, 'query', { query, time: end })
        : await ask(prometheus, 'query_range', { query, start, end, step: stepSeconds });
      return target.format === 'table' ? table(series, target) : series.map((one) => frame(one, target, start, stepSeconds, end));
    })
  );
  return found.flat();
}

function frame(series, target, start, step, end) {
  const name = legend(target, series.metric);
  let points = series.values ?? [series.value];
  if (series.values) {
    const told = new Map(points.map(([at, value]) => [Math.round((at - start) / step), value]));
    const steps = Math.floor((end - start) / step) + 1;
    points = Array.from({ length: steps }, (_, i) => [start + i * step, told.get(i)]);
  }
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        values: points.map(([, value]) => (value === undefined ? null : Number(value))),
        labels: series.metric,
        config: { displayNameFromDS: name },
      },
    ],
  });
}

function table(series, target) {
  if (!series.length) {
    return [];
  }
  const names = [...new Set(series.flatMap((one) => Object.keys(one.metric)))].sort();
  return [
    toDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: series.map((one) => one.value[0] * 1000) },
        ...names.map((name) => ({ name, type: FieldType.string, values: series.map((one) => one.metric[name] ?? '') })),
        { name: 'Value', type: FieldType.number, values: series.map((one) => Number(one.value[1])) },
      ],
    }),
  ];
}
