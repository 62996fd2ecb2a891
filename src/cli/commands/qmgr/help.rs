//! The help texts of `qmgr`.

/// The text of `help` without a topic.
const GENERAL: &str = "\
General syntax: command [object][@server] [name attribute[.resource] OP value]
To get help on any topic or subtopic, type help <topic>
Help is available on all commands and topics.
Available commands: \n\
active                 The active command will set the active objects.
create                 The create command will create the specified object on the PBS server(s).
delete                 The delete command will delete the specified object from the PBS server(s).
set                    The set command sets the value for an attribute on the specified object.
unset                  The unset command will unset an attribute on the specified object.
list                   The list command will list out all the attributes for the specified object.
print                  The print command's output can be fed back into qmgr as input.
import                 This takes hook script contents.
export                 Dumps output of hook script into.
quit                   The quit command will exit from qmgr.
history                The history command will show qmgr command history.
Other topics: \n\
attributes             type help or ? <attributes>.
operators              type help or ? <operators>.
names                  type help or ? <names>.
values                 type help or ? <values>.

";

/// The help texts by topic. Any prefix of a name selects the first topic with this prefix.
const TOPICS: &[(&str, &str)] = &[
    (
        "active",
        "active [queue|node|server] [name[,name...]]\n\
        Commands without a name apply to the active objects.\n",
    ),
    (
        "create",
        "create object name [attribute OP value[,...]]\n\
        Objects: queue, resource, hook, node. A node needs socket = PATH.\n",
    ),
    (
        "delete",
        "delete object name[,name...]\n\
        Queues with jobs, and resources that are in use, cannot be deleted.\n",
    ),
    (
        "set",
        "set object [name[,name...]] attribute[.resource] OP value[,...]\n\
        For each object, either all attributes are set, or none.\n",
    ),
    (
        "unset",
        "unset object [name[,name...]] attribute[.resource][,...]\n",
    ),
    (
        "list",
        "list object [name[,name...]] [attribute[,...]]\n\
        @default stands for all objects of the kind.\n",
    ),
    (
        "print",
        "print object [name[,name...]] [attribute[,...]]\n\
        Without attributes, print server prints the resources and queues, too.\n",
    ),
    (
        "import",
        "import hook name application/x-executable default file\n\
        The hook runs a copy of the program in the file.\n",
    ),
    (
        "export",
        "export hook name application/x-executable default [file]\n\
        Prints the program of the hook, or writes it to the file.\n",
    ),
    ("quit", "Exits qmgr; exit does the same.\n"),
    ("history", "Shows the commands given so far.\n"),
    (
        "attributes",
        "See qmgr(8). To see the attributes that are set, use list.\n",
    ),
    (
        "operators",
        "=   sets a value\n\
        +=  adds names to a list or entries to a limit, or increases a number\n\
        -=  removes names from a list or entries from a limit, or decreases a number\n",
    ),
    (
        "names",
        "Names of objects, separated by commas; @default stands for all.\n",
    ),
    (
        "values",
        "Quote values with blanks or commas.\n\
        Limits: [u:user=N],[g:group=N],[p:project=N],[o:PBS_ALL=N].\n\
        PBS_GENERIC stands for each user, group or project.\n",
    ),
];

/// The text for a topic; the general text for an unknown topic.
pub fn about(topic: &str) -> &'static str {
    let topic = topic.trim().to_ascii_lowercase();
    let known = TOPICS
        .iter()
        .find(|(name, _)| !topic.is_empty() && name.starts_with(&*topic));
    known.map_or(GENERAL, |(_, text)| text)
}
