# Runs the program text from standard input as `python3 -` would. But `site`, a fourth of
# Python's start, is read only when the text wants what it brings: installed packages, help.
def start():
    import builtins
    import sys

    def site():
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not Installed]
        import site
        site.main()

    class Installed:
        @staticmethod
        def find_spec(name, path=None, target=None):
            site()
            specs = (finder.find_spec(name, path, target) for finder in sys.meta_path)
            return next((spec for spec in specs if spec is not None), None)

    def help(*words):
        site()
        return builtins.help(*words)

    def complain(kind, error, trace):
        own = trace and trace.tb_next and trace.tb_next.tb_next
        sys.__excepthook__(kind, error.with_traceback(own), own)

    # A line comes out when it is printed: whoever is ended early has said it.
    if sys.stdout:
        sys.stdout.reconfigure(line_buffering=True)
    sys.meta_path.append(Installed)
    sys.excepthook = complain
    sys.argv = ["-"]
    builtins.exit = builtins.quit = sys.exit
    builtins.help = help
    names = sys.modules["__main__"].__dict__
    del names["start"]
    names.update(__file__="<stdin>", __cached__=None)
    exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), names)


start()
