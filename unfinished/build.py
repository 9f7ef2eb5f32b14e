import sys,re,nbformat
from pathlib import Path
BOOK=Path("/work/main/book")
INSTALL='''# @title Install the package where it is missing, on Colab for example
import importlib.util

if importlib.util.find_spec("unmasked") is None:
    %pip install --quiet git+https://github.com/transformer-unmasked/unmasked'''
META={"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"},"language_info":{"name":"python"}}
def cell(kind,cid,tags,text):
    text=text.strip("\n")
    if kind=="md":
        c=nbformat.v4.new_markdown_cell(text)
    else:
        c=nbformat.v4.new_code_cell(text)
        tags=list(tags)
        if kind in("fold","hide"):
            tags.insert(0,"hide-input" if kind=="fold" else "hide-cell")
            c.metadata["jupyter"]={"source_hidden":True}
            c.metadata["cellView"]="form"
            assert text.startswith("# @title"),(cid,text[:40])
        if tags: c.metadata["tags"]=tags
    c["id"]=cid
    return c
def build(path):
    t=Path(path).read_text()
    t=t.replace("%% install\n","%% hide install\n"+INSTALL+"\n")
    parts=re.split(r"^%% (.*)$",t,flags=re.M)
    cells=[]
    for head,body in zip(parts[1::2],parts[2::2]):
        kind,cid,*tags=head.split()
        cells.append(cell(kind,cid,tags,body))
    ids=[c["id"] for c in cells]; assert len(set(ids))==len(ids),[i for i in ids if ids.count(i)>1]
    nb=nbformat.v4.new_notebook(cells=cells,metadata=META)
    name=Path(path).stem
    words=0
    for c in cells:
        if c.cell_type=="markdown":
            s=re.sub(r"<details.*?</details>","",c.source,flags=re.S); s=re.sub(r"\$\$.*?\$\$","",s,flags=re.S); s=re.sub(r"^\|.*$","",s,flags=re.M); s=re.sub(r"```.*?```","",s,flags=re.S)
            words+=len(s.split())
    (BOOK/f"{name}.ipynb").write_text(nbformat.writes(nb,version=4)+"\n")
    print(name,"words",words,"longest cell",max(len(c.source.splitlines()) for c in cells if c.cell_type=="code" and "solution" not in c["id"]), "max col",max(len(l) for c in cells if c.cell_type=="code" for l in c.source.splitlines()))
for p in sys.argv[1:]: build(p)
import subprocess
names=[str(BOOK/f"{Path(p).stem}.ipynb") for p in sys.argv[1:]]
R="/work/main/.venv/bin/ruff"
subprocess.run([R,"check","--quiet","--fix","--unsafe-fixes",*names],cwd="/work/main")
subprocess.run([R,"format","--quiet",*names],cwd="/work/main")
