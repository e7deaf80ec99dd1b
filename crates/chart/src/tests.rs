//! One chart of each kind: its bytes, and that no text is cut or covers another.

use trace::Category;

use super::text::text_width;
use super::theme::WIDTH;
use super::{Bar, Bars, Colour, Growth, HeatMap, Part, Point, Row, Sample, Scatter, Series, Square, StackedArea};

const LONG: &str = "allocator.env.PYTORCH_CUDA_ALLOC_CONF unset → expandable_segments:True,max_split_size_mb:64";

fn bars(label: &str) -> Bars {
    let part = |length: f64, colour: Colour| Part {
        length,
        colour,
        says: format!("{label}: {length} MiB"),
    };
    let row = |start: f64, lengths: &[(f64, Colour)]| Row {
        label: label.into(),
        bars: vec![Bar {
            start,
            parts: lengths.iter().map(|&(length, colour)| part(length, colour)).collect(),
            note: format!("{} MiB", lengths.iter().map(|(length, _)| length).sum::<f64>()),
        }],
        carry: Some(start),
    };
    Bars {
        title: "Bars".into(),
        subtitle: format!("Labels: {label}."),
        x_title: "Allocated (MiB)".into(),
        legend: vec![
            ("parameter".into(), Colour::Category(Category::Parameter)),
            (label.into(), Colour::Less),
            ("total".into(), Colour::Total),
        ],
        rows: vec![
            row(
                0.0,
                &[(100.0, Colour::Category(Category::Parameter)), (20.0, Colour::Total)],
            ),
            row(80.0, &[(40.0, Colour::Less)]),
        ],
        line: Some((110.0, "allocated: 110 MiB".into())),
    }
}

fn scatter(labels: &[String]) -> Scatter {
    let point = |(at, label): (usize, &String)| Point {
        is_muted: false,
        x: 100.0 + (at * 37 % 11) as f64,
        y: 200.0 + (at * 53 % 7) as f64,
        deviation: (at % 3 == 0).then_some(0.5),
        label: label.clone(),
        says: format!("{label}: 200 MiB"),
        series: Some(format!("dtype {}", at % 2)),
    };
    Scatter {
        title: "Scatter".into(),
        subtitle: "Lower is better.".into(),
        x_title: "Speed (tokens/s)".into(),
        y_title: "Peak allocated (MiB)".into(),
        x_is_log: false,
        y_is_log: false,
        curves: Vec::new(),
        points: labels.iter().enumerate().map(point).collect(),
        line: vec![(100.0, 200.0), (104.0, 200.0), (104.0, 204.0)],
    }
}

fn growth(name: &str) -> Growth {
    let sample = |x: f64| Sample {
        x,
        y: vec![2.0 * x, 100.0 - x],
        says: format!("{name}: {x}"),
        label: Some(name.into()),
    };
    let series = |name: &str| Series {
        name: name.into(),
        samples: [4.0, 16.0, 64.0].map(sample).to_vec(),
    };
    Growth {
        title: "Growth".into(),
        subtitle: "A straight line is linear growth.".into(),
        x_title: "rank".into(),
        panels: vec!["Peak allocated (MiB)".into(), "Speed (tokens/s)".into()],
        series: vec![series(name), series("other")],
    }
}

fn area(name: &str) -> StackedArea {
    StackedArea {
        title: "Area".into(),
        subtitle: name.into(),
        x_title: "Time (ms)".into(),
        y_title: "Allocated (MiB)".into(),
        legend: vec![
            ("parameter".into(), Category::Parameter),
            ("temporary".into(), Category::Temporary),
        ],
        moments: vec![
            (0.0, vec![50.0, 0.0]),
            (10.0, vec![50.0, 50.0]),
            (20.0, vec![50.0, 0.0]),
        ],
        phases: vec![(0.0, "forward".into()), (10.0, "backward".into())],
        budget: Some((110.0, "budget 110 MiB".into())),
        marks: vec![(10.0, 100.0, "1".into())],
        unit: "MiB",
    }
}

fn heat_map(name: &str) -> HeatMap {
    let square = |colour, strength: f64| Square {
        colour,
        strength,
        lines: vec![format!("{strength}"), "temporaries".into()],
        says: format!("{name}: {strength}"),
    };
    HeatMap {
        title: "Heat map".into(),
        subtitle: "The stronger, the more.".into(),
        x_title: "world_size".into(),
        legend: vec![("fits".into(), Colour::Less), ("does not fit".into(), Colour::More)],
        columns: ["1", "2", "4", "8", "16", "32", "64", name].map(String::from).to_vec(),
        rows: vec![
            (
                name.into(),
                (0..8)
                    .map(|at| Some(square(Colour::More, f64::from(at) / 8.0)))
                    .collect(),
            ),
            (
                "other".into(),
                (0..8)
                    .map(|at| (at > 2).then(|| square(Colour::Less, f64::from(at) / 8.0)))
                    .collect(),
            ),
        ],
    }
}

#[test]
fn each_kind_is_drawn() {
    insta::assert_snapshot!("bars", bars("rank 4").draw().unwrap());
    insta::assert_snapshot!("scatter", scatter(&["rank 4".into(), "rank 8".into()]).draw().unwrap());
    insta::assert_snapshot!("growth", growth("rank").draw().unwrap());
    insta::assert_snapshot!("heat_map", heat_map("7B").draw().unwrap());
    insta::assert_snapshot!("area", area("step 2").draw().unwrap());
}

/// The boxes of all texts: left, top, right, bottom, and the text.
fn texts(svg: &str) -> Vec<(i32, i32, i32, i32, String)> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let texts = svg
        .split("<text ")
        .skip(1)
        .map(|text| text.split_once("</text>").unwrap().0);
    let texts = texts.filter(|text| !text.contains("transform=\"rotate"));
    texts
        .map(|text| {
            let (tag, text) = text.split_once('>').unwrap();
            let tag = format!(" {tag}");
            let number = |name: &str| attribute(&tag, name).parse::<f64>().unwrap();
            let (size, bold) = (number("font-size"), if tag.contains("bold") { 1.15 } else { 1.0 });
            let width = text_width(text.trim(), size * bold);
            let (x, y, half) = (number("x") as i32, number("y") as i32, (size * 0.45) as i32);
            let left = match attribute(&tag, "text-anchor").as_str() {
                "start" => x,
                "middle" => x - width / 2,
                _ => x - width,
            };
            let middle = match attribute(&tag, "dy").as_str() {
                "0.5ex" => y,
                "0.76em" => y + half,
                _ => y - half,
            };
            (left, middle - half, left + width, middle + half, text.trim().to_owned())
        })
        .collect()
}

#[test]
fn no_text_is_cut_or_covers_another() {
    let many: Vec<String> = (0..24).map(|at| format!("{LONG} {at}")).collect();
    let few: Vec<String> = many[..3].to_vec();
    let charts = [
        bars("rank 4").draw(),
        bars(LONG).draw(),
        bars(&LONG.replace([' ', ':', ',', '_', '.'], "x").repeat(3)).draw(),
        scatter(&few).draw(),
        scatter(&many).draw(),
        growth(LONG).draw(),
        heat_map(LONG).draw(),
        area(&LONG.repeat(4)).draw(),
    ];
    for svg in charts.map(Result::unwrap) {
        let texts = texts(&svg);
        assert!(texts.len() > 5 && !svg.contains('…'), "{texts:?}");
        let height: i32 = svg
            .split_once("height=\"")
            .unwrap()
            .1
            .split_once('"')
            .unwrap()
            .0
            .parse()
            .unwrap();
        for (at, a) in texts.iter().enumerate() {
            assert!(
                a.0 >= 0 && a.1 >= 0 && a.2 <= WIDTH && a.3 <= height,
                "{a:?} leaves the chart"
            );
            let clear = |b: &(i32, i32, i32, i32, String)| a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
            for b in &texts[..at] {
                assert!(clear(b), "{a:?} covers {b:?}");
            }
        }
    }
}

#[test]
fn every_label_of_a_crowd_is_in_the_key() {
    let many: Vec<String> = (0..40)
        .map(|at| format!("a rather long label of cell number {at}"))
        .collect();
    let svg = scatter(&many).draw().unwrap();
    for (at, label) in many.iter().enumerate() {
        assert!(svg.contains(&format!("\n{}: {label}\n", at + 1)), "{label}");
    }
}

#[test]
fn text_of_users_cannot_leave_its_element() {
    let evil = "</text></title><script>alert(1)</script> & \"'";
    for svg in [
        bars(evil).draw(),
        scatter(&[evil.into(), evil.into()]).draw(),
        growth(evil).draw(),
        heat_map(evil).draw(),
        area(evil).draw(),
    ] {
        let svg = svg.unwrap();
        assert!(!svg.contains("<script") && svg.contains("&lt;script"), "{svg}");
    }
}
