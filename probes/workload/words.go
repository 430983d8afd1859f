package workload

import "strings"

// opener is the first word of every composed prompt. The first word of a text has
// no space before it, so most tokenizers give it another token than the same word
// inside a sentence; with a fixed one-letter opener, which every vocabulary holds
// as one token, that difference is a constant.
const opener = "a"

// markers are the candidates for the word that separates the others while a
// tokenizer is calibrated. None of them is an ordinary word of the list.
var markers = []string{"and", "the", "with", "from"}

// ordinaryWords are what prompts are made of: short, plain and lower-case, because
// those are single tokens in practically every vocabulary when a space precedes
// them. The order is part of every workload's text, so a change is a new
// generatorVersion.
var ordinaryWords = strings.Fields(`
able above across act add after again age air all alone along also always among amount angle animal answer any
apple area arm army around arrive art ask baby back bad bag ball band bank bar base basic bay bear beat beauty
become bed been before begin behind believe bell below best better between beyond big bird bit black blood blow blue
board boat body bone book born both bottom box boy bread break bridge bright bring broad brother brown build burn
bus business busy buy call came camp can cap car card care carry case cat catch cause cell cent center century chair
chance change charge chart check chief child choose church circle city claim class clean clear climb clock close
cloth cloud coast coat code cold color column come common company compare complete cook cool copy corner cost cotton
could count country course cover cow create cross crowd cry culture cup current cut dance danger dark data day dead
deal dear death decide deep degree depend design desk detail develop die differ dinner direct discuss distance
divide doctor does dog dollar done door double doubt down draw dream dress drink drive drop dry during dust each ear
early earth east easy eat edge education effect egg eight either electric else end enemy energy engine enjoy enough
enter equal escape evening event ever every exact example except expect eye face fact fair fall family famous far
farm fast father favor fear feed feel feet few field fight figure fill film final find fine finger finish fire first
fish fit five flat floor flow flower fly follow food foot force foreign forest forget form forward four free fresh
friend front fruit full fun game garden gas gate general gentle get gift girl give glad glass goal gold gone good
government grand grass gray great green ground group grow guess guide hair half hand happen happy hard hat have head
health hear heart heat heavy help here high hill history hit hold hole home hope horse hospital hot hotel hour house
huge human hundred hunt ice idea image inch include increase industry inside instead interest iron island issue item
job join joy judge jump just keep key kill kind king kitchen knee know lady lake land language large last late laugh
law lay lead learn leave left leg length less letter level lie life lift light like line list listen little live
local long look lost lot loud love low lunch machine main major make man manner many map mark market master match
material matter meal mean measure meat meet member memory mental message metal method middle might mile milk million
mind minute mirror miss mix model modern moment money month moon more morning most mother motion mountain mouth move
music name narrow nation nature near neck need new news night nine noise north nose note nothing notice now number
object ocean off offer office often oil old once one only open opinion order other outside oven over own page paint
pair paper parent park part party pass past path pattern pay peace people perfect period person picture piece place
plain plan plane plant plate play please point police poor position possible post pound power practice present press
pretty price print private problem process produce program promise proper prove public pull purpose push put quality
quarter queen question quick quiet quite race radio rain raise range rate rather reach read ready real reason record
red region remember repeat reply report rest result rich ride right ring rise river road rock roll room root rope
round row rule run safe sail salt same sand save scale school science score sea search season seat second secret see
seed seem sell send sense serve set seven several shade shall shape share sharp sheet shell ship shirt shoe shop
short shot should shoulder shout show side sight sign silver simple since sing single sister sit six size skill skin
sky sleep slow small smile smoke smooth snow social soft soil some son song soon sort sound south space speak
special speed spell spend sport spot spread spring square staff stage stair stand star start state station stay
steam steel step stick still stock stone stop store storm story straight street strong student study subject success
such sugar summer sun supply support sure surface sweet swim system table tail take talk tall taste tax teach team
tell ten term test thank thick thin thing think third thought thousand three through throw time tiny today together
tomorrow tone tonight took tool top total touch toward town trade train travel tree trip trouble true trust try turn
twelve twenty two type uncle under unit until upper use usual valley value very view village visit voice vote wait
walk wall want war warm wash watch water wave way weak wear weather week weight well west wheel when where white
whole why wide wife wild will wind window winter wise wish without woman wonder wood word work world worth would
write wrong yard year yellow yes young
`)
