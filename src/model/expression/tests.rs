//! Tests of expressions by example and by property.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Host n2 of the examples: a GPU host that runs jobs of ann and bob.
fn n2() -> BTreeMap<String, ExpressionValue<'static>> {
    let groups = ["gpu".to_string(), "fast".to_string()];
    let values = [
        ("host.name", ExpressionValue::from("n2")),
        ("host.os", ExpressionValue::from("linux")),
        ("host.groups", ExpressionValue::List(groups.to_vec().into())),
        ("host.flag.scratch", ExpressionValue::from(true)),
        ("host.flags", ExpressionValue::from(12.0)),
        ("host.memory.total", ExpressionValue::from(16000.0)),
        ("host.memory.avail", ExpressionValue::from(4000.0)),
        ("host.duty.user", ExpressionValue::from("ann, bob")),
        ("host.my-disk.avail", ExpressionValue::from(7.0)),
        ("job.user", ExpressionValue::from("bob")),
        ("zero", ExpressionValue::from(0.0)),
        ("ncpus", ExpressionValue::from(4.0)),
    ];
    values
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

fn parse(text: &str) -> Expression {
    Expression::parse(text).unwrap_or_else(|syntax| panic!("{text}: {syntax}"))
}

/// Returns the displayed value, or the fault.
fn value(text: &str) -> String {
    match parse(text).evaluate(&n2()) {
        Ok(value) => value.to_string(),
        Err(fault) => fault.to_string(),
    }
}

fn assert_values(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(value(text), *expected, "{text}");
    }
}

/// Q20: operators as words and as signs.
#[test]
fn operators_give_the_results_of_qube() {
    assert_values(&[
        ("10 min 12", "10"),
        ("10 max 12", "12"),
        ("10 sub 8", "2"),
        ("1 add 2", "3"),
        ("3 mul 4", "12"),
        ("14 div 7", "2"),
        ("12 xor 8", "4"),
        ("12 ^ 8", "4"),
        ("10 mod 4", "2"),
        ("10 % 4", "2"),
        ("\"v\" in \"x,y,v\"", "true"),
        ("'x,y,v' has 'v'", "true"),
        ("'x,y,v' has 'w'", "false"),
        ("not 1", "false"),
        ("!0", "true"),
        ("10 eq 10", "true"),
        ("10 = 10", "true"),
        ("10 == 10", "true"),
        ("10 ne 10", "false"),
        ("10 <> 10", "false"),
        ("10 != 11", "true"),
        ("1 and 0", "false"),
        ("1 && 1", "true"),
        ("1 or 0", "true"),
        ("0 || 0", "false"),
        ("12 & 8", "8"),
        ("8 | 4", "12"),
        ("5 lt 10", "true"),
        ("5 gt 10", "false"),
        ("4 ge 6", "false"),
        ("4 <= 6", "true"),
        ("4 le 4", "true"),
        ("4 rs 1", "2"),
        ("4 << 1", "8"),
        ("4 ls 1", "8"),
        ("-5 >> 1", "-3"),
        ("2 ** 10", "1024"),
    ]);
}

/// Q20: the examples of the rule, and other properties of a host.
#[test]
fn host_properties_include_groups_flags_amounts_and_duties() {
    assert_values(&[
        ("\"gpu\" in host.groups", "true"),
        ("gpu in host.groups", "true"),
        ("host.groups has gpu", "true"),
        ("host.groups has gp", "false"),
        ("host.groups eq 'gpu,fast'", "true"),
        ("host.memory.avail/2 > 1000", "true"),
        ("host.memory.avail/2 > 2000", "false"),
        ("host.duty.user has bob", "true"),
        ("host.duty.user has carl", "false"),
        ("job.user in host.duty.user", "true"),
        ("host.flag.scratch", "true"),
        ("host.flag.scratch eq true and not false", "true"),
        ("host.flag.none", "undefined"),
        ("host.flags & 4 == 4", "true"),
        ("host.os eq linux", "true"),
        ("host.os == \"winnt\"", "false"),
        ("(host.os = 'linux') and host.memory.total >= 100", "true"),
        ("host.'my-disk'.avail ge 7", "true"),
        ("host.name ne n2", "false"),
    ]);
}

#[test]
fn operators_have_the_precedence_of_the_table() {
    assert_values(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 3 - 2", "5"),
        ("2 ** 3 ** 2", "512"),
        ("-2 ** 2", "-4"),
        ("(-2) ** 2", "4"),
        ("2 ** -1", "0.5"),
        ("1 + 2 min 2 + 3", "3"),
        ("1 << 2 + 1", "8"),
        ("6 & 3 | 8 ^ 1", "11"),
        ("1 | 2 == 3", "true"),
        ("not 1 == 2", "true"),
        ("!1 == 0", "true"),
        ("1 or 1 and 0", "true"),
        ("not 0 and 0", "false"),
        ("1 ? 2 : 0 ? 3 : 4", "2"),
        ("2 if 0 else 3 if 0 else 4", "4"),
        ("ncpus > 2 ? 'many' : 'few'", "many"),
        ("1 + (2 if ncpus == 4 else 3)", "3"),
        ("7 % 4 * 2", "6"),
        ("-7 % 4", "1"),
        ("7 % -4", "-1"),
        ("-8 % 4 == 0", "true"),
        ("+3 - -2", "5"),
    ]);
}

#[test]
fn functions_return_their_values() {
    assert_values(&[
        ("abs(-3)", "3"),
        ("min(3, 2, 5)", "2"),
        ("max(ncpus, 2) + 1", "5"),
        ("max (3)", "3"),
        ("sqrt(16) + exp(0) + log(1)", "5"),
        ("log10(1000) + log2(8)", "6"),
        ("pow(2, 5)", "32"),
        ("ceil(1.2) + floor(1.8) + round(2.5) + trunc(-1.9)", "5"),
        ("sqrt(host.none)", "undefined"),
    ]);
}

/// Q3.
#[test]
fn undefined_values_propagate_unless_another_part_decides() {
    assert_values(&[
        ("host.none > 3", "undefined"),
        ("host.none == host.none", "undefined"),
        ("host.none + 1", "undefined"),
        ("not host.none", "undefined"),
        ("-host.none", "undefined"),
        ("host.none and 0", "false"),
        ("host.none and 1", "undefined"),
        ("0 and host.none", "false"),
        ("host.none or 1", "true"),
        ("host.none or 0", "undefined"),
        ("host.none ? 1 : 2", "undefined"),
        ("1 ? 2 : host.none", "2"),
        ("host.none has bob", "undefined"),
        ("1 / host.none / 0", "undefined"),
    ]);
}

#[test]
fn faults_contain_the_part_that_cannot_be_evaluated() {
    assert_values(&[
        ("1 + ncpus / zero", "division by zero in ncpus/zero"),
        ("ncpus % 0 > 1", "division by zero in ncpus%0"),
        ("0 ** -1", "division by zero in 0**-1"),
        ("sqrt(-1)", "a number that is not finite in sqrt(-1)"),
        ("10 ** 400", "a number that is not finite in 10**400"),
        ("1 << 2000", "a number that is not finite in 1<<2000"),
        (
            "host.os + 1",
            "text or a list instead of a number in host.os+1",
        ),
        (
            "abs(host.os)",
            "text or a list instead of a number in host.os",
        ),
        (
            "host.os and 1",
            "text or a list instead of true or false in host.os",
        ),
        (
            "host.os > 3",
            "a list, or a number and a text, compared by `<`, `<=`, `>` or `>=` in host.os>3",
        ),
        (
            "1.5 & 1",
            "bit operation on a number that is not an integer or is too large in 1.5&1",
        ),
        (
            "ncpus has 4",
            "a single value instead of a list, or a list instead of a single value in ncpus has 4",
        ),
        ("zero == 0 or 1 / zero > 2", "true"),
        ("zero != 0 and 1 / zero > 2", "false"),
    ]);
    assert_eq!(
        parse("1/zero").number(&n2()).unwrap_err().wrong,
        EvaluationFaultKind::DivisionByZero
    );
    let endless = |_: &str| Some(ExpressionValue::Number(f64::NAN));
    assert_eq!(
        parse("x > 1").evaluate(&endless).unwrap_err().wrong,
        EvaluationFaultKind::NotFinite
    );
}

#[test]
fn a_text_is_converted_for_a_comparison_with_a_number_or_boolean() {
    assert_values(&[
        ("'10' == 10", "true"),
        ("'10.0' == '10'", "false"),
        ("host.memory.total > '9000'", "true"),
        ("'b' > 'a'", "true"),
        ("host.os eq 3", "false"),
        ("'1,2,3' has 2", "true"),
        ("host.flag.scratch eq 'True'", "true"),
        ("host.flag.scratch + 1", "2"),
        ("(1 < 2) == (3 < 4)", "true"),
    ]);
}

/// Q3.
#[test]
fn a_refusal_names_the_decisive_clause_and_the_values_found() {
    let refusal = |text: &str| {
        parse(text)
            .verdict(&n2())
            .refusal()
            .map(|refusal| refusal.on("n2").to_string())
    };
    let rows = [
        (
            "host.memory.total >= 32000 and host.os eq linux",
            "host.memory.total>=32000 false on n2 (16000)",
        ),
        (
            "host.os eq linux and (host.name eq n1 and 1)",
            "host.name==n1 false on n2 (n2)",
        ),
        (
            "host.gpus >= 1 and host.os eq winnt",
            "host.os==winnt false on n2 (linux)",
        ),
        (
            "host.gpus >= 1 and host.os eq linux",
            "host.gpus>=1 undefined on n2",
        ),
        (
            "host.os > 3",
            "host.os>3 faulty on n2 \
             (a list, or a number and a text, compared by `<`, `<=`, `>` or `>=`)",
        ),
        (
            "'x' in host.groups",
            "\"x\" in host.groups false on n2 (gpu,fast)",
        ),
        ("0", "0 false on n2"),
        (
            "host.os eq winnt or host.memory.avail > 9000",
            "host.os==winnt or host.memory.avail>9000 false on n2 (host.memory.avail: 4000, host.os: linux)",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(refusal(text).as_deref(), Some(expected), "{text}");
        assert!(!parse(text).holds(&n2()), "{text}");
    }
    assert_eq!(refusal("host.os eq linux and gpu in host.groups"), None);
    assert!(parse("host.os eq linux and gpu in host.groups").holds(&n2()));
}

/// M8f: ranking of four nodes with job counts 0, 1, 2, 0.
#[test]
fn nodes_are_ranked_by_an_expression() {
    let ranking = parse("SPEED + .01*AMEM - 10*JOBCOUNT");
    let rank = |speed: f64, memory: f64, jobs: f64| {
        let node = move |name: &str| match name {
            "SPEED" => Some(ExpressionValue::Number(speed)),
            "AMEM" => Some(ExpressionValue::Number(memory * 1024.0)),
            "JOBCOUNT" => Some(ExpressionValue::Number(jobs)),
            _ => None,
        };
        ranking.number(&node).unwrap().unwrap()
    };
    let ranks = [
        rank(1.0, 8.0, 0.0),
        rank(1.0, 16.0, 1.0),
        rank(2.0, 32.0, 2.0),
        rank(2.0, 8.0, 0.0),
    ];
    let expected = [82.92, 154.84, 309.68, 83.92];
    assert!(
        ranks
            .iter()
            .zip(expected)
            .all(|(rank, expected)| (rank - expected).abs() < 1e-9),
        "{ranks:?}"
    );
}

/// Q20.
#[test]
fn syntax_errors_have_column_and_cause() {
    let rows = [
        (
            "",
            1,
            "expected a name, a number or a text in quotes, found the end",
        ),
        (
            "host.memory.total >=",
            21,
            "expected a name, a number or a text in quotes, found the end",
        ),
        (
            "1 + * 2",
            5,
            "expected a name, a number or a text in quotes, found `*`",
        ),
        ("ä == 1 1", 8, "expected an operator or the end, found `1`"),
        ("(1 + 2", 7, "expected `)`, found the end"),
        (
            "1 < 2 < 3",
            7,
            "comparisons do not chain: join them with `and`, or use parentheses",
        ),
        (
            "host.os eq 'linux",
            12,
            "no closing ' for the text that begins here",
        ),
        (
            "host.memory.total > 8gb",
            21,
            "`8gb` has a unit: write a plain number (memory in MB: 8192)",
        ),
        (
            "host.name eq 3dbox",
            14,
            "`3dbox` is not a number; put text in quotes",
        ),
        ("1.2.3", 1, "`1.2.3` is not a number; put text in quotes"),
        ("1e999", 1, "`1e999` is not a number; put text in quotes"),
        ("host. os", 1, "the name that begins here ends in a dot"),
        (
            "host.''.x",
            1,
            "a quoted part of a name must not be empty or contain dots",
        ),
        ("a ; b", 3, "unexpected character `;`; put text in quotes"),
        (
            "1 ? 2",
            6,
            "expected `:` and the other value, found the end",
        ),
        (
            "1 if 2",
            7,
            "expected `else` and the other value, found the end",
        ),
        ("pow(1)", 1, "`pow` takes 2 arguments"),
        ("abs(1, 2)", 1, "`abs` takes 1 argument"),
        (
            "2 * sin(1)",
            5,
            "unknown function `sin`; use one of: abs ceil exp floor log log10 log2 max min pow round sqrt trunc",
        ),
    ];
    for (text, column, message) in rows {
        let syntax = Syntax {
            column,
            message: message.to_string(),
        };
        assert_eq!(Expression::parse(text), Err(syntax), "{text}");
    }
}

#[test]
fn deep_and_long_expressions_are_refused_and_wide_expressions_accepted() {
    let refused = |text: String| Expression::parse(&text).unwrap_err().message;
    assert!(refused("(".repeat(100_000)).contains("may have at most"));
    for opening in [
        "(",
        "-",
        "not ",
        "!",
        "abs(",
        "1+(",
        "1?",
        "2**",
        "1 if 1 else ",
    ] {
        assert!(
            refused(opening.repeat(parser::LONGEST / opening.len()))
                .contains("may be nested at most"),
            "{opening}"
        );
    }
    assert!(refused("1+".repeat(2000) + "1").contains("may be nested at most"));
    assert_eq!(value(&("(".repeat(90) + "1" + &")".repeat(90))), "1");
    assert_eq!(value(&("1 and ".repeat(1300) + "1")), "true");
    assert_eq!(value(&("0 or ".repeat(1300) + "1")), "true");
    assert_eq!(value(&("1+".repeat(90) + "1")), "91");
}

#[test]
fn names_and_bare_words_are_listed_separately() {
    let text = "host.memory.avail > 3 and gpu in host.groups and host.os eq linux or zero";
    let expression = parse(text);
    assert_eq!(
        Vec::from_iter(expression.names()),
        ["host.groups", "host.memory.avail", "host.os", "zero"]
    );
    assert_eq!(Vec::from_iter(expression.words()), ["gpu", "linux"]);
    assert_eq!(
        value("4 == ncpus"),
        "true",
        "a word that the scope defines is a name"
    );
}

#[test]
fn expressions_are_shown_canonically_and_stored_as_typed() {
    let rows = [
        ("host.memory.total  ge  32000", "host.memory.total>=32000"),
        ("((a)) && !(b || c)", "a and not (b or c)"),
        ("a and (b and c)", "a and b and c"),
        ("1 - (2 - 3)", "1-(2-3)"),
        ("(1 - 2) - 3", "1-2-3"),
        ("(2 ** 3) ** -(4)", "(2**3)**-4"),
        ("1 * !a", "1*(not a)"),
        ("x if a else y", "a ? x : y"),
        ("(a ? b : c) ? d : e", "(a ? b : c) ? d : e"),
        ("'say \"hi\"' == a.'b c'.\"d\"", "'say \"hi\"'==a.\"b c\".d"),
        ("min( 1 ,x)", "min(1,x)"),
        (".01 + 1e30 + 1e-9", "0.01+1e30+1e-9"),
        ("(a == b) == c", "(a==b)==c"),
    ];
    for (typed, shown) in rows {
        assert_eq!(parse(typed).to_string(), shown, "{typed}");
        assert_eq!(parse(typed), parse(shown), "{typed}");
    }
    let stored = serde_json::to_string(&parse("a  and b")).unwrap();
    assert_eq!(stored, r#""a  and b""#);
    assert_eq!(
        serde_json::from_str::<Expression>(&stored).unwrap().text(),
        "a  and b"
    );
    assert!(
        serde_json::from_str::<Expression>(r#""a and""#)
            .unwrap_err()
            .to_string()
            .contains("column 6")
    );
}

/// Generates texts of expressions, nested a few levels.
fn expressions() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        any::<u16>().prop_map(|number| number.to_string()),
        (0.0..1e-3f64).prop_map(|number| format!("{number:e}")),
        "[a-d]{1,3}(\\.[a-d0-9]{1,3}){0,2}",
        Just("host.'a b'.x".to_string()),
        "'[a-z\" .,]{0,5}'",
        Just("true".to_string()),
    ];
    let signs = vec![
        "+", "-", "*", "/", "%", "**", "^", "&", "|", "<<", ">>", "==", "!=", "<", ">=", " in ",
        " has ", " min ", " max ", " and ", "||",
    ];
    leaf.prop_recursive(5, 40, 3, move |inner| {
        let binary = (
            inner.clone(),
            prop::sample::select(signs.clone()),
            inner.clone(),
        );
        prop_oneof![
            binary
                .clone()
                .prop_map(|(left, sign, right)| format!("{left}{sign}{right}")),
            binary.prop_map(|(left, sign, right)| format!("({left}){sign}({right})")),
            inner.clone().prop_map(|inner| format!("-{inner}")),
            inner.clone().prop_map(|inner| format!("!({inner})")),
            inner.clone().prop_map(|inner| format!("not {inner}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} ? {b} : {c}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("max({a}, {b})")),
        ]
    })
    .boxed()
}

/// Computes numbers joined by `+ - * /`: products first, then sums, each from the left.
fn computed(first: f64, rest: &[(char, f64)]) -> f64 {
    let (mut sum, mut product) = (0.0, first);
    for (sign, number) in rest {
        match sign {
            '*' => product *= number,
            '/' => product /= number,
            sign => {
                sum += product;
                product = if *sign == '+' { *number } else { -number };
            }
        }
    }
    sum + product
}

proptest! {
    #[test]
    fn the_displayed_form_parses_to_the_same_expression(text in expressions()) {
        // Some of the texts are refused, such as chained comparisons. All others must round-trip.
        if let Ok(expression) = Expression::parse(&text) {
            let again = Expression::parse(&expression.to_string());
            prop_assert_eq!(again.as_ref(), Ok(&expression), "{}", expression);
            let (again, host) = (again.unwrap(), n2());
            prop_assert_eq!(again.evaluate(&host), expression.evaluate(&host));
        }
    }

    #[test]
    fn arithmetic_agrees_with_a_direct_computation(
        first in 1u16..999,
        rest in prop::collection::vec((prop::sample::select(vec!['+', '-', '*', '/']), 1u16..999), 0..30),
    ) {
        let rest: Vec<(char, f64)> = rest.into_iter().map(|(sign, number)| (sign, f64::from(number))).collect();
        let text = rest.iter().fold(first.to_string(), |text, (sign, number)| format!("{text} {sign} {number}"));
        let expected = computed(f64::from(first), &rest);
        prop_assert_eq!(parse(&text).number(&n2()), Ok(Some(expected)), "{}", text);
    }

    #[test]
    fn comparisons_agree_with_comparisons_of_numbers(a in -9i32..9, b in -9i32..9, c in -9i32..9) {
        let holds = |text: String| parse(&text).holds(&n2());
        prop_assert_eq!(holds(format!("{a} < {b} and {b} <= {c}")), a < b && b <= c);
        prop_assert_eq!(holds(format!("{a} == {b} or not {b} ge {c}")), a == b || b < c);
        prop_assert_eq!(holds(format!("{a} min {b} max {c} == max(min({a}, {b}), {c})")), true);
    }

    #[test]
    fn a_verdict_is_met_exactly_if_the_expression_holds(text in expressions()) {
        if let Ok(expression) = Expression::parse(&text) {
            let verdict = expression.verdict(&n2());
            prop_assert_eq!(verdict.is_met(), expression.holds(&n2()));
            if let RequirementVerdict::Refused(refusal) = verdict {
                prop_assert!(expression.to_string().contains(&refusal.clause));
            }
        }
    }

    #[test]
    fn the_column_of_a_syntax_error_lies_in_the_text(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(syntax) = Expression::parse(&text) {
            prop_assert!((1..=text.chars().count() + 1).contains(&syntax.column), "{}", syntax);
        }
    }

    #[test]
    fn any_tokens_are_refused_or_formatted_as_the_same_expression(text in "(host\\.a|a|1|\\.5|2e|'x|\"|not |and |in |[-+*/%^&|<>=!?:,().ü] ?|if |else |min){0,24}") {
        if let Ok(expression) = Expression::parse(&text) {
            prop_assert_eq!(Expression::parse(&expression.to_string()), Ok(expression.clone()));
            let _ = expression.verdict(&n2());
        }
    }
}
