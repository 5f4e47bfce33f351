"use strict";
(() => {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => {
    const [variable, opacity] = name.split("/");
    const value = style.getPropertyValue(variable).trim();
    if (opacity === undefined) return value;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  };
  // What begins with two dashes is the name of one of the page's colours.
  const coloured = (value) => {
    if (typeof value === "string") return value.startsWith("--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, coloured(inner)]));
  };
  const axis = () => ({ gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line") });
  const layoutOf = (layout, width) => {
    const narrow = width < 560;
    const common = {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: narrow ? 11 : 13, family: "system-ui, sans-serif" },
      margin: { l: narrow ? 44 : 60, r: narrow ? 12 : 24, t: 16, b: 48 },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    };
    const whole = { ...common, ...coloured(layout) };
    for (const name of ["xaxis", "yaxis"]) {
      whole[name] = { ...axis(), automargin: true, ...whole[name] };
      if (whole[name].title) whole[name].title.font = { size: common.font.size };
    }
    return whole;
  };
  const charts = [...document.querySelectorAll(".chart")];
  const draw = (chart) => {
    const figure = JSON.parse(document.getElementById(chart.id.replace(/-chart$/, "-data")).textContent);
    chart.hidden = false;
    return Plotly.react(chart, coloured(figure.data), layoutOf(figure.layout, chart.clientWidth), {
      displayModeBar: false,
      responsive: true,
      scrollZoom: false,
    });
  };
  const drawAll = () => Promise.all(charts.map(draw));
  drawAll().then(() => {
    for (const chart of charts) chart.parentElement.querySelector("details").open = false;
    document.documentElement.dataset.drawn = "yes";
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const button of document.querySelectorAll(".copy button")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "selected";
      }
      setTimeout(() => (button.textContent = "copy"), 2000);
    });
  }
})();
